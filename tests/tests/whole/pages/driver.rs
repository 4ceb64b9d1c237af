//! Chromedriver or geckodriver with a browser of its own, told what to do over HTTP.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chomp_testing::needs;
use chomp_testing::waiting::HANG;
use serde_json::{Value, json};

use crate::common::cluster::{free_port, wait_to_answer};
use crate::common::http::{body_length, read_head};

/// How long an answer of the browser may take: a little longer than what it is told to do.
const ANSWER_MAX: Duration = HANG.saturating_add(Duration::from_mins(1));

/// Held by whoever starts a browser. Drivers do not wait for long until theirs is there, and several that start at the
/// same time keep each other from it.
static STARTING: Mutex<()> = Mutex::new(());

/// Ends the driver with all that it started, and removes their files, when whoever started this ends or lets go of it.
const GUARD: &str = r#"setsid "$@" & read -r end; kill -KILL -$!; wait; rm -rf "$HOME""#;

/// The options of Chromium. The sandbox needs rights that containers do not give, and the pages are our own.
const FLAGS: &str = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run \
                     --disable-background-networking --disable-component-update --disable-sync --hide-scrollbars";

/// A driver and its browser. Dropping it ends both.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) is_firefox: bool,
    /// Whether the browser asks for less motion.
    pub(crate) calm: bool,
    /// Its profile, what it downloads, and what it and its driver print.
    pub(crate) folder: PathBuf,
    port: u16,
    session: String,
    guard: Child,
}

impl Driver {
    /// None if there is no browser on this machine.
    pub(crate) fn start(calm: bool) -> Option<Driver> {
        let is_firefox = std::env::var("CHOMP_BROWSER").is_ok_and(|name| name == "firefox");
        let (need, program, browsers) = if is_firefox {
            (
                "FIREFOX",
                "geckodriver",
                ["firefox-esr", "firefox", "firefox-bin"],
            )
        } else {
            let browsers = ["chromium", "chromium-browser", "google-chrome"];
            ("BROWSER", "chromedriver", browsers)
        };
        let found = on_path(&[program]).zip(on_path(&browsers));
        let found = found.ok_or_else(|| format!("{program} or its browser is not installed"));
        let (program, browser) = needs::found(need, found)?;
        let _turn = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap().keep();
        let printed = File::create(folder.join("printed")).unwrap();
        let port = free_port();
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(program)
            .arg(format!("--port={port}"))
            // Files that the browser forgets to remove go with the folder.
            .env("TMPDIR", &folder)
            .env("HOME", &folder)
            .stdin(Stdio::piped())
            .stdout(printed.try_clone().unwrap())
            .stderr(printed)
            // A terminal's signals to the tests do not keep it from its work.
            .process_group(0)
            .spawn()
            .expect("a shell starts");
        let mut driver = Driver {
            is_firefox,
            calm,
            folder,
            port,
            session: "/session".to_owned(),
            guard,
        };
        wait_to_answer(port);
        let wanted = json!({"capabilities": {"alwaysMatch": driver.wanted(&browser)}});
        let started = driver.call("POST", "", &wanted.to_string()).unwrap();
        driver.session = format!("/session/{}", started["sessionId"].as_str().unwrap());
        Some(driver)
    }

    /// The capabilities asked for: headless, silent, files in the folder; a calm browser asks pages for less motion.
    fn wanted(&self, browser: &Path) -> Value {
        let hang = u64::try_from(HANG.as_millis()).expect("some minutes");
        let timeouts = json!({"script": hang, "pageLoad": hang});
        if self.is_firefox {
            return json!({
                "browserName": "firefox",
                "timeouts": timeouts,
                "moz:firefoxOptions": {"binary": browser, "args": ["-headless"], "prefs": {
                    "ui.prefersReducedMotion": i32::from(self.calm),
                    "browser.download.folderList": 2,
                    "browser.download.dir": self.folder.join("downloads"),
                    "app.update.enabled": false,
                    "datareporting.policy.dataSubmissionEnabled": false,
                    "network.captive-portal-service.enabled": false,
                    "network.connectivity-service.enabled": false,
                    // Errors of scripts then stand in what the driver prints.
                    "browser.dom.window.dump.enabled": true,
                    "devtools.console.stdout.content": true,
                }},
            });
        }
        let profile = format!("--user-data-dir={}", self.folder.display());
        let calm = self.calm.then_some("--force-prefers-reduced-motion");
        let flags = FLAGS.split(' ').chain([&profile[..]]).chain(calm);
        let flags: Vec<&str> = flags.collect();
        json!({
            "browserName": "chrome",
            "timeouts": timeouts,
            "goog:chromeOptions": {"binary": browser, "args": flags},
            "goog:loggingPrefs": {"browser": "ALL"},
        })
    }

    /// An error is what the browser says of it.
    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> Result<Value, String> {
        let (port, session, length) = (self.port, &self.session, body.len());
        let request = format!(
            "{method} {session}{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(ANSWER_MAX)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let head = read_head(&mut reader).unwrap();
        let mut answer = vec![0; body_length(&head)];
        reader.read_exact(&mut answer).unwrap();
        let value = serde_json::from_slice::<Value>(&answer).unwrap()["value"].take();
        if head.starts_with("HTTP/1.1 200") {
            Ok(value)
        } else {
            Err(format!("{}: {}", value["error"], value["message"]))
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Waiting closes what the guard reads from.
        self.guard.wait().expect("a process of ours");
    }
}

/// The first of these programs that is found.
fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let in_folders = |name| folders.iter().map(move |folder| folder.join(name));
    let mut files = names.iter().flat_map(in_folders);
    files.find(|file| file.is_file())
}
