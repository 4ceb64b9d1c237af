//! A browser of a test: one call after the other, and no step is taken before the last one is done.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use thirtyfour::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::common::cluster::{free_port, wait_for};
use crate::engine::Engine;

/// An answer of the browser that has not come after this long never will.
const ANSWER_MAX: Duration = Duration::from_mins(1);

/// What a visitor sees with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) name: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
    pub(crate) touch: bool,
}

/// A browser with one window and a profile of its own. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Browser {
    engine: Engine,
    runtime: Runtime,
    driver: Option<WebDriver>,
    /// The program that drives it.
    program: Child,
    /// Its profile, what it downloads, and what it and its driver print.
    folder: TempDir,
    /// So much of what was printed is read.
    read: Cell<usize>,
}

/// A browser that asks for less motion; none if there is none on this machine.
pub(crate) fn calm() -> Option<Browser> {
    Browser::start(true)
}

/// A browser that asks for nothing.
pub(crate) fn lively() -> Option<Browser> {
    Browser::start(false)
}

impl Browser {
    fn start(calm: bool) -> Option<Browser> {
        static PROVIDER: Once = Once::new();
        let engine = Engine::chosen();
        let (program, browser) = engine.programs()?;
        // The HTTP client wants to know who would do TLS, also when nobody asks for it.
        PROVIDER.call_once(|| {
            let ring = rustls::crypto::ring::default_provider();
            ring.install_default().expect("it is the first");
        });
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("downloads")).unwrap();
        let printed = File::create(folder.path().join("printed")).unwrap();
        let port = free_port();
        let program = Command::new(program)
            .arg(format!("--port={port}"))
            // What the browser forgets to remove goes with the folder.
            .env("TMPDIR", folder.path())
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(printed.try_clone().unwrap())
            .stderr(printed)
            // With all that it starts it is one group, which can be ended as a whole.
            .process_group(0)
            .spawn()
            .expect("the driver starts");
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let wanted = engine.wanted(&browser, folder.path(), calm);
        let mut browser = Browser {
            engine,
            runtime,
            driver: None,
            program,
            folder,
            read: Cell::default(),
        };
        wait_for("the driver", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let builder = WebDriver::builder(format!("http://127.0.0.1:{port}"), wanted);
        let connect = async { builder.request_timeout(ANSWER_MAX).await };
        browser.driver = Some(browser.runtime.block_on(connect).unwrap());
        browser.look(Look {
            name: "desktop",
            width: 1280,
            height: 800,
            dark: false,
            touch: false,
        });
        if engine == Engine::Chromium {
            let allowed = json!({"behavior": "allow", "downloadPath": browser.downloads()});
            browser.tool("Browser.setDownloadBehavior", allowed);
        }
        Some(browser)
    }

    fn driver(&self) -> &WebDriver {
        self.driver.as_ref().expect("it has started")
    }

    fn tool(&self, command: &str, parameters: Value) -> Value {
        let tools = self.driver().cdp();
        let sent = tools.send_raw(command, parameters);
        self.runtime.block_on(sent).unwrap()
    }

    /// Changes what the visitor sees with: of Firefox the size alone.
    pub(crate) fn look(&self, look: Look) {
        if self.engine == Engine::Firefox {
            let resized = self.driver().set_window_rect(0, 0, look.width, look.height);
            return self.runtime.block_on(resized).unwrap();
        }
        let scheme = if look.dark { "dark" } else { "light" };
        let size = json!({
            "width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": look.touch
        });
        self.tool("Emulation.setDeviceMetricsOverride", size);
        let touch = json!({"enabled": look.touch});
        self.tool("Emulation.setTouchEmulationEnabled", touch);
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.tool("Emulation.setEmulatedMedia", json!({"features": [feature]}));
    }

    /// The folder that downloads go into.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.folder.path().join("downloads")
    }

    pub(crate) fn open(&self, url: &str) {
        self.runtime.block_on(self.driver().goto(url)).unwrap();
    }

    pub(crate) fn reload(&self) {
        self.runtime.block_on(self.driver().refresh()).unwrap();
    }

    pub(crate) fn back(&self) {
        self.runtime.block_on(self.driver().back()).unwrap();
    }

    pub(crate) fn forward(&self) {
        self.runtime.block_on(self.driver().forward()).unwrap();
    }

    fn find(&self, css: &str) -> WebElement {
        let found = self.runtime.block_on(self.driver().find(By::Css(css)));
        found.unwrap_or_else(|error| panic!("no {css}: {error}"))
    }

    /// A click of a visitor: it hits what is there.
    pub(crate) fn click(&self, css: &str) {
        let element = self.find(css);
        let clicked = self.runtime.block_on(element.click());
        clicked.unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    pub(crate) fn double_click(&self, css: &str) {
        let element = self.find(css);
        let actions = self.driver().action_chain().double_click_element(&element);
        self.runtime.block_on(actions.perform()).unwrap();
    }

    /// Points at an element without a click.
    pub(crate) fn point_at(&self, css: &str) {
        let element = self.find(css);
        let actions = self.driver().action_chain();
        let actions = actions.move_to_element_center(&element);
        self.runtime.block_on(actions.perform()).unwrap();
    }

    /// Presses keys, wherever the focus is.
    pub(crate) fn press(&self, keys: &[Key]) {
        let mut actions = self.driver().action_chain();
        for key in keys {
            actions = actions.send_keys(key.to_owned());
        }
        self.runtime.block_on(actions.perform()).unwrap();
    }

    /// Writes a text into a field, in place of what is there.
    pub(crate) fn write(&self, css: &str, text: &str) {
        let field = self.find(css);
        self.runtime.block_on(field.clear()).unwrap();
        self.runtime.block_on(field.send_keys(text)).unwrap();
    }

    /// Gives the field for files a file.
    pub(crate) fn choose_file(&self, css: &str, file: &Path) {
        let field = self.find(css);
        let path = file.to_str().unwrap();
        self.runtime.block_on(field.send_keys(path)).unwrap();
    }

    /// The value of a JavaScript expression.
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.run(&format!("return {expression};"))
    }

    /// Runs a script, and gives what it returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        let run = self.driver().execute(script, Vec::new());
        let returned = self.runtime.block_on(run);
        let returned = returned.unwrap_or_else(|error| panic!("{script}: {error}"));
        returned.json().clone()
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

    /// Waits until an expression is true.
    pub(crate) fn wait(&self, expression: &str) {
        wait_for(expression, || self.value(expression) == true);
    }

    /// Waits until an element says this.
    pub(crate) fn wait_to_say(&self, css: &str, text: &str) {
        self.wait(&format!(
            "document.querySelector({css:?}).textContent.includes({text:?})"
        ));
    }

    /// What the console was told since the last call: errors of scripts, of the network, and of
    /// the content security policy. Of Firefox those of scripts alone.
    pub(crate) fn complaints(&self) -> Vec<String> {
        if self.engine == Engine::Firefox {
            let printed = fs::read_to_string(self.folder.path().join("printed")).unwrap();
            let new = &printed[self.read.replace(printed.len())..];
            let is_error = |line: &&str| line.starts_with("JavaScript error: http");
            return new.lines().filter(is_error).map(str::to_owned).collect();
        }
        let log = self.runtime.block_on(self.driver().browser_log()).unwrap();
        let bad = log.into_iter().filter(|entry| entry.level != "INFO");
        bad.map(|entry| entry.message).collect()
    }

    /// Asserts that the console was told nothing.
    pub(crate) fn is_content(&self) {
        assert_eq!(self.complaints(), [""; 0]);
    }

    /// A picture of the window, if pictures are wanted.
    pub(crate) fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("CHOMP_SCREENSHOTS") else {
            return;
        };
        fs::create_dir_all(&folder).unwrap();
        let png = self.runtime.block_on(self.driver().screenshot_as_png());
        let file = Path::new(&folder).join(format!("{name}.png"));
        fs::write(file, png.unwrap()).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            // It may be gone already: then there is nothing to end.
            self.runtime.block_on(driver.quit()).ok();
        }
        let group = i32::try_from(self.program.id()).expect("a process id");
        killpg(Pid::from_raw(group), Signal::SIGKILL).ok();
        self.program.wait().expect("a process of ours");
    }
}
