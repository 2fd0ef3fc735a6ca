//! The exit codes of `ws-inspect`, and what it says: of a file that is no snapshot, of a profile
//! that it has written or cannot write, and of events that it leaves out.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
};

use ws::{inspect::source::EVENTS_FIELD, runtime::Runtime};

/// A folder that goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir = env::temp_dir().join(format!("ws-inspect-{}-{name}", process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    /// A file in it.
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What failed before is told, and not that there is no folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn snapshot() -> Vec<u8> {
    let runtime = Runtime::new().unwrap();
    let mut bytes = Vec::new();
    runtime.handle().write_snapshot(&mut bytes).unwrap();
    bytes
}

/// Its exit code, and what it said on stdout and on stderr. It comes back by itself: no page is
/// shown.
fn inspect(args: &[&Path]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ws-inspect"))
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    (output.status.code(), out, err)
}

/// It writes a profile.
fn converts(file: &Path, out: &Path) -> (Option<i32>, String, String) {
    inspect(&[file, Path::new("--firefox"), out])
}

#[test]
fn a_file_that_is_no_snapshot_is_an_error() {
    let folder = Folder::new("wrong");
    let text = folder.file("text", b"some text");
    let none = folder.0.join("none");
    let out = folder.0.join("out");
    let what = "this is no snapshot, or the end of it is missing";
    for (file, what) in [(&text, what), (&none, "No such file")] {
        for said in [inspect(&[file]), converts(file, &out)] {
            let (code, stdout, stderr) = said;
            assert_eq!((code, &*stdout), (Some(1), ""), "{stderr}");
            let start = format!("ws-inspect: {}: {what}", file.display());
            assert!(stderr.starts_with(&start), "{stderr}");
        }
    }
    assert!(!out.exists());
}

#[test]
fn arguments_that_are_wrong_are_another_error() {
    let (code, stdout, stderr) = inspect(&[]);
    assert_eq!((code, &*stdout), (Some(2), ""));
    assert!(stderr.starts_with("ws-inspect: a file is missing"));
    let (code, stdout, stderr) = inspect(&[Path::new("--help")]);
    assert_eq!((code, &*stderr), (Some(0), ""));
    assert!(stdout.contains("--firefox OUT"), "{stdout}");
}

#[test]
fn a_profile_is_written_or_an_error() {
    let folder = Folder::new("profile");
    let file = folder.file("snapshot", &snapshot());
    let out = folder.0.join("out");
    let (code, stdout, stderr) = converts(&file, &out);
    assert_eq!((code, &*stderr), (Some(0), ""));
    let start = format!("{} is written: ", out.display());
    assert!(stdout.starts_with(&start), "{stdout}");
    let profile: serde_json::Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    assert!(profile["threads"].is_array());
    let out = folder.0.join("none").join("out");
    let (code, stdout, stderr) = converts(&file, &out);
    assert_eq!((code, &*stdout), (Some(1), ""));
    let start = format!("ws-inspect: {}: ", out.display());
    assert!(stderr.starts_with(&start), "{stderr}");
}

/// A number as protocol buffers have it.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A field with a length.
fn field(number: u64, value: &[u8]) -> Vec<u8> {
    let (tag, length) = (varint(number << 3 | 2), varint(value.len() as u64));
    [&tag, &length, value].concat()
}

// Two marks, with names of 20 MiB: one of them is shown.
#[test]
fn events_that_are_left_out_are_told() {
    let folder = Folder::new("part");
    let mark = format!(r#"[1,1,"Mark",0,"{}"]"#, "x".repeat(20 << 20));
    let packet = field(1, &field(EVENTS_FIELD, mark.as_bytes()));
    let trace = [&packet, &packet, &snapshot()[..]].concat();
    let file = folder.file("snapshot", &trace);
    let out = folder.0.join("out");
    let (code, _, stderr) = converts(&file, &out);
    let file = file.display();
    let expected =
        format!("ws-inspect: {file} has more events than are shown: the oldest are left out\n");
    assert_eq!((code, stderr), (Some(0), expected));
}
