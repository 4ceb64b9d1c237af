//! A browser of a test: one call after the other, and no step is taken before the last one is done.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use super::driver::Driver;
use super::site::list;
use crate::common::cluster::wait_for;

/// The browsers that no test uses. To start one takes longer than most tests.
static IDLE: Mutex<Vec<Arc<Driver>>> = Mutex::new(Vec::new());

/// A key, as drivers write it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    Tab = 0xE004,
    Enter = 0xE007,
    Space = 0xE00D,
    Home = 0xE011,
    Left = 0xE012,
    Up = 0xE013,
    Right = 0xE014,
    Down = 0xE015,
}

/// A browser with one window, which shows nothing yet. Dropping it leaves it to another test, unless this one fails.
#[derive(Debug)]
pub(crate) struct Browser {
    driver: Arc<Driver>,
    /// The bytes of the browser's output that were looked at.
    read: AtomicUsize,
}

/// A browser that asks for less motion; none if there is none on this machine.
pub(crate) fn calm() -> Option<Browser> {
    Browser::open_window(true)
}

/// A browser that asks for nothing.
pub(crate) fn lively() -> Option<Browser> {
    Browser::open_window(false)
}

impl Browser {
    fn open_window(calm: bool) -> Option<Browser> {
        let mut idle = IDLE.lock().unwrap();
        let found = idle.iter().position(|driver| driver.calm == calm);
        let found = found.map(|index| idle.swap_remove(index));
        drop(idle);
        let driver = match found {
            Some(driver) => driver,
            None => Arc::new(Driver::start(calm)?),
        };
        let read = AtomicUsize::new(0);
        let browser = Browser { driver, read };
        // Servers have ports of their own, so nothing that a page keeps is for the pages of another test. What belongs
        // to the window goes with it.
        let new = browser.post("/window/new", &json!({"type": "tab"}));
        browser.driver.call("DELETE", "/window", "").unwrap();
        browser.post("/window", &json!({"handle": new["handle"]}));
        browser.complaints();
        fs::remove_dir_all(browser.downloads()).ok();
        fs::create_dir(browser.downloads()).unwrap();
        browser.resize(1280, 800, false);
        if !browser.driver.is_firefox {
            let allowed = json!({"behavior": "allow", "downloadPath": browser.downloads()});
            browser.tool("Browser.setDownloadBehavior", &allowed);
        }
        Some(browser)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.driver.call("POST", path, &body.to_string());
        answer.unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    /// Has a tool of Chromium's developers do something.
    fn tool(&self, command: &str, parameters: &Value) {
        let called = json!({"cmd": command, "params": parameters});
        self.post("/goog/cdp/execute", &called);
    }

    /// Gives the window another size, and the visitor a touch screen or none: of Firefox the size alone.
    pub(crate) fn resize(&self, width: u32, height: u32, touch: bool) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch});
        if self.driver.is_firefox {
            self.post("/window/rect", &size);
            return;
        }
        self.tool("Emulation.setDeviceMetricsOverride", &size);
        self.tool(
            "Emulation.setTouchEmulationEnabled",
            &json!({"enabled": touch}),
        );
    }

    /// Turns the scripts of pages off or on, for pages that are opened from now on; of Firefox it cannot.
    pub(crate) fn run_scripts(&self, on: bool) -> bool {
        if !self.driver.is_firefox {
            let off = json!({"value": !on});
            self.tool("Emulation.setScriptExecutionDisabled", &off);
        }
        !self.driver.is_firefox
    }

    /// The folder that downloads go into.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.driver.folder.join("downloads")
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    pub(crate) fn reload(&self) {
        self.post("/refresh", &json!({}));
    }

    pub(crate) fn back(&self) {
        self.post("/back", &json!({}));
    }

    pub(crate) fn forward(&self) {
        self.post("/forward", &json!({}));
    }

    /// An element, as drivers write it: an object with one field, its name.
    fn find(&self, css: &str) -> Value {
        self.post("/element", &json!({"using": "css selector", "value": css}))
    }

    /// Does something to an element.
    fn element(&self, css: &str, what: &str, with: &Value) {
        let found = self.find(css);
        let name = found.as_object().and_then(|fields| fields.values().next());
        let name = name.and_then(Value::as_str).expect("an element");
        self.post(&format!("/element/{name}/{what}"), with);
    }

    /// A click of a visitor: it hits what is there.
    pub(crate) fn click(&self, css: &str) {
        self.element(css, "click", &json!({}));
    }

    /// A click by a script, on what the page may move or replace at any moment.
    pub(crate) fn click_at_once(&self, css: &str) {
        self.run(&format!("document.querySelector({css:?}).click();"));
    }

    /// A double click by a script, as the page hears of it: a slow browser takes that of a visitor for two clicks. The
    /// second one hits what has come to the place of the first.
    pub(crate) fn double_click(&self, css: &str) {
        self.run(&format!(
            "const first = document.querySelector({css:?});
             first.scrollIntoView({{block: 'center', behavior: 'instant'}});
             const {{left, top, width, height}} = first.getBoundingClientRect();
             const click = (on, detail) => on.dispatchEvent(new MouseEvent('click', {{bubbles: true, detail}}));
             click(first, 1);
             click(document.elementFromPoint(left + width / 2, top + height / 2).closest('button'), 2);"
        ));
    }

    /// Presses keys, wherever the focus is.
    pub(crate) fn press(&self, keys: &[Key]) {
        let key = |what: &str, key: Key| json!({"type": what, "value": char::from_u32(key as u32)});
        let press = |&pressed: &Key| [key("keyDown", pressed), key("keyUp", pressed)];
        let actions: Vec<Value> = keys.iter().flat_map(press).collect();
        let source = json!({"type": "key", "id": "key", "actions": actions});
        self.post("/actions", &json!({"actions": [source]}));
    }

    /// Writes a text into a field, in place of what is there.
    pub(crate) fn write(&self, css: &str, text: &str) {
        self.element(css, "clear", &json!({}));
        self.element(css, "value", &json!({"text": text}));
    }

    /// Gives the field for files a file.
    pub(crate) fn choose_file(&self, css: &str, file: &Path) {
        self.element(css, "value", &json!({"text": file}));
    }

    /// The value of a JavaScript expression.
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.run(&format!("return {expression};"))
    }

    /// Runs a script, and gives what it returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Makes the pauses of the page last a tenth from now on.
    pub(crate) fn hurry(&self) {
        self.run(
            "if (window.hurried) return;
             const real = setTimeout;
             window.hurried = true;
             window.setTimeout = (then, ms) => real(then, ms / 10);",
        );
    }

    /// Keeps pauses of the page of at least `ms` milliseconds from ending, from now on.
    pub(crate) fn hold(&self, ms: u32) {
        self.run(&format!(
            "const real = setTimeout;
             window.setTimeout = (then, ms) => (ms >= {ms} ? void (window.held = then) : real(then, ms));"
        ));
    }

    /// Waits until a pause is held.
    pub(crate) fn wait_for_held(&self) {
        self.wait("typeof window.held === 'function'");
    }

    /// Ends the pause that is held, or the next one.
    pub(crate) fn let_go(&self) {
        self.wait_for_held();
        self.run("const then = window.held; window.held = null; then();");
    }

    /// The text of an element, seen or not.
    pub(crate) fn text(&self, css: &str) -> String {
        let text = self.value(&format!("document.querySelector({css:?}).textContent"));
        text.as_str().unwrap().trim().to_owned()
    }

    pub(crate) fn is_hidden(&self, css: &str) -> bool {
        let hidden = format!("document.querySelector({css:?}).checkVisibility() === false");
        self.value(&hidden).as_bool().unwrap()
    }

    /// Waits until an expression is true. The page itself looks, for a while: to ask it takes longer.
    pub(crate) fn wait(&self, expression: &str) {
        let look = format!(
            "return (async () => {{
                for (let looks = 0; looks < 40; looks += 1) {{
                    if (({expression}) === true) return true;
                    await new Promise((then) => setTimeout(then, 5));
                }}
                return false;
            }})();"
        );
        wait_for(expression, || self.run(&look) == true);
    }

    /// Waits until an element says this.
    pub(crate) fn wait_to_say(&self, css: &str, text: &str) {
        self.wait(&format!(
            "document.querySelector({css:?}).textContent.includes({text:?})"
        ));
    }

    /// New messages on the console since the last call: errors of scripts, of the network, and of
    /// the content security policy. Of Firefox those of scripts alone.
    pub(crate) fn complaints(&self) -> Vec<String> {
        if self.driver.is_firefox {
            let printed = fs::read_to_string(self.driver.folder.join("printed")).unwrap();
            let new = &printed[self.read.swap(printed.len(), Ordering::Relaxed)..];
            let is_error = |line: &&str| line.starts_with("JavaScript error: http");
            return new.lines().filter(is_error).map(str::to_owned).collect();
        }
        let log = self.post("/se/log", &json!({"type": "browser"}));
        let bad = list(&log).iter().filter(|entry| entry["level"] != "INFO");
        bad.map(|entry| entry["message"].to_string()).collect()
    }

    /// Asserts that the console was told nothing.
    pub(crate) fn is_content(&self) {
        assert_eq!(self.complaints(), [""; 0]);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !thread::panicking() {
            IDLE.lock().unwrap().push(Arc::clone(&self.driver));
        }
    }
}
