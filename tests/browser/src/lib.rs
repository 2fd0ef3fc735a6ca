//! A browser that a test drives: Chromium by WebDriver, <https://www.w3.org/TR/webdriver2/>.
//!
//! Chromedriver speaks HTTP and JSON. A client of it is a function, so this is one, on `ureq`.
//! Rejected: `fantoccini` and `thirtyfour`, which bring a runtime of tokio's, and playwright, which
//! brings node.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// Longer than anything takes here, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A process that ends with its value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Chromium with a window.
pub struct Browser {
    session: String,
    agent: ureq::Agent,
    profile: PathBuf,
    driver: Option<Process>,
}

impl std::fmt::Debug for Browser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browser")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// A key of WebDriver.
pub mod key {
    #![expect(missing_docs, reason = "the names say it")]
    pub const ESCAPE: &str = "\u{e00c}";
    pub const ENTER: &str = "\u{e007}";
    pub const TAB: &str = "\u{e004}";
    pub const DOWN: &str = "\u{e015}";
    pub const UP: &str = "\u{e013}";
    pub const END: &str = "\u{e010}";
    pub const HOME: &str = "\u{e011}";
    pub const PAGE_DOWN: &str = "\u{e00f}";
}

impl Browser {
    /// Starts a browser. `dark`: the system asks for dark colours.
    ///
    /// # Panics
    ///
    /// If there is none, with what is to be installed.
    pub fn start(width: u32, height: u32, dark: bool) -> Self {
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Debian's package chromium-driver is installed");
        let mut driver = Process(driver);
        let out = driver.0.stdout.take().expect("it is a pipe");
        let port = port_of(out);
        let profile = folder("chromium");
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(LIMIT))
            .http_status_as_error(false)
            .build()
            .into();
        let mut browser = Self {
            session: format!("http://127.0.0.1:{port}"),
            agent,
            profile,
            driver: Some(driver),
        };
        let mut args: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ]
        .map(str::to_owned)
        .into();
        args.push(format!("--user-data-dir={}", browser.profile.display()));
        args.push(format!("--window-size={width},{height}"));
        if dark {
            args.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        let options = json!({ "args": args, "prefs": {
            "download.default_directory": browser.downloads(),
            "download.prompt_for_download": false,
        }});
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let session = browser.call("POST", "/session", &wanted);
        let id = session["sessionId"].as_str().expect("a session has an id");
        browser.session += &format!("/session/{id}");
        browser.size(width, height);
        browser
    }

    /// Where files go that are downloaded.
    pub fn downloads(&self) -> PathBuf {
        self.profile.join("downloads")
    }

    /// Sets what the page sees as the size of the screen, with a density of 1.
    pub fn size(&self, width: u32, height: u32) {
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({ "width": width, "height": height, "deviceScaleFactor": 1,
                "mobile": width < 600 }),
        );
    }

    /// Says what the user asked the system for, such as `prefers-color-scheme`.
    pub fn prefer(&self, feature: &str, value: &str) {
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [{ "name": feature, "value": value }] }),
        );
    }

    fn devtools(&self, command: &str, parameters: &Value) {
        let call = json!({ "cmd": command, "params": parameters });
        self.call("POST", "/goog/cdp/execute", &call);
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.session);
        let answer = match method {
            "POST" => self.agent.post(&url).send(body.to_string()),
            "DELETE" => self.agent.delete(&url).call(),
            _ => self.agent.get(&url).call(),
        };
        let mut answer = answer.unwrap_or_else(|error| panic!("{method} {url}: {error}"));
        let limited = answer.body_mut().with_config().limit(64 << 20);
        let text = limited.read_to_string().expect("an answer is a text");
        let answer: Value = serde_json::from_str(&text).expect("an answer is JSON");
        let value = answer["value"].clone();
        assert!(value["error"].is_null(), "{method} {path} {body}: {value}");
        value
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.call("POST", "/url", &json!({ "url": url }));
    }

    /// Runs a function's body in the page, and returns what it returns.
    pub fn run(&self, script: &str) -> Value {
        let call = json!({ "script": script, "args": [] });
        self.call("POST", "/execute/sync", &call)
    }

    /// The text of the first element that a selector finds; empty if there is none.
    pub fn text(&self, selector: &str) -> String {
        let selector = json!(selector);
        let script = format!("return document.querySelector({selector})?.innerText ?? ''");
        self.run(&script).as_str().unwrap_or_default().to_owned()
    }

    /// The texts of all elements that a selector finds.
    pub fn texts(&self, selector: &str) -> Vec<String> {
        let selector = json!(selector);
        let script = format!(
            "return [...document.querySelectorAll({selector})].map((it) => it.innerText.trim())"
        );
        let texts = self.run(&script);
        let texts = texts.as_array().into_iter().flatten();
        texts
            .filter_map(|it| it.as_str())
            .map(str::to_owned)
            .collect()
    }

    /// Clicks at an element, as a user does: it has to be in sight.
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.call("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Presses keys, in the element that has the focus.
    pub fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })))
            .collect();
        let source = json!({ "type": "key", "id": "keys", "actions": actions });
        self.call("POST", "/actions", &json!({ "actions": [source] }));
    }

    fn element(&self, selector: &str) -> String {
        let call = json!({ "using": "css selector", "value": selector });
        let element = self.call("POST", "/element", &call);
        let id = element.as_object().and_then(|it| it.values().next());
        let id = id.and_then(Value::as_str);
        id.expect("an element has an id").to_owned()
    }

    /// Waits until a function's body returns true in the page.
    ///
    /// # Panics
    ///
    /// If it does not within a minute.
    #[track_caller]
    pub fn wait(&self, what: &str, script: &str) {
        let until = Instant::now() + LIMIT;
        while self.run(script) != Value::Bool(true) {
            assert!(
                Instant::now() < until,
                "not so after a minute: {what}\n{}\n{:?}",
                self.text("body"),
                self.log()
            );
            thread::sleep(Duration::from_millis(30));
        }
    }

    /// What the page and the browser have written into the console.
    pub fn log(&self) -> Vec<String> {
        let log = self.call("POST", "/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().into_iter().flatten();
        entries.map(|entry| entry["message"].to_string()).collect()
    }

    /// A picture of the window, as PNG.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn picture(&self, path: &Path) {
        let picture = self.call("GET", "/screenshot", &Value::Null);
        let picture = picture.as_str().expect("a picture is a text");
        let picture = BASE64_STANDARD.decode(picture).expect("in base 64");
        fs::write(path, picture).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Chromium ends with its session. A driver that is killed leaves it behind.
        let _ = self.agent.delete(&self.session).call();
        self.driver = None;
        let _ = fs::remove_dir_all(&self.profile);
    }
}

/// The port that chromedriver says it has taken.
fn port_of(out: ChildStdout) -> u16 {
    let mut out = BufReader::new(out);
    let mut line = String::new();
    while out.read_line(&mut line).is_ok_and(|length| length > 0) {
        if let Some(port) = line.split("on port ").nth(1)
            && let Ok(port) = port.trim().trim_end_matches('.').parse()
            && port != 0
        {
            // It must not wait for a reader.
            thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
            return port;
        }
        line.clear();
    }
    panic!("chromedriver has ended");
}

/// A new folder.
///
/// # Panics
///
/// If the system refuses one.
pub fn folder(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    let name = format!("ws-{name}-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::create_dir_all(&path).expect("there is room for a folder");
    path
}

/// The program that is looked at, or `ws-inspect`.
pub struct Program {
    /// Where its page is.
    pub url: String,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _process: Process,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// Starts a program whose first line says where its page is.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let input = process.stdin.take().expect("it is a pipe");
        let mut output = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let process = Process(process);
        let mut line = String::new();
        output.read_line(&mut line).expect("it writes a line");
        let url = line.split_whitespace().last().unwrap_or_default();
        assert!(url.starts_with("http://"), "{line:?}");
        Self {
            url: url.to_owned(),
            input,
            output,
            _process: process,
        }
    }

    /// Where it listens: an address and a port.
    ///
    /// # Panics
    ///
    /// Never: the first line has it.
    pub fn address(&self) -> &str {
        self.url.strip_prefix("http://").expect("it has one")
    }

    /// Tells it to do something.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn tell(&mut self, order: &str) {
        writeln!(self.input, "{order}").expect("it reads");
    }

    /// Tells it something, and returns the line that it answers.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn ask(&mut self, order: &str) -> String {
        self.tell(order);
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        line.trim().to_owned()
    }
}
