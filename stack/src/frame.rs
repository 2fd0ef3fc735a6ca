//! What a walk has found, and how it is shown.

use std::{fmt, path::Path};

/// The frames of a stack, the innermost one first.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    pub(crate) frames: Vec<Frame>,
    /// Why the walk ended before it came to the begin of the thread.
    pub(crate) cut: Option<String>,
}

impl Stack {
    /// Its frames, the innermost one first. A function that was inlined has a frame of its own.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Why frames are missing at the outer end. None: the last frame is the first function of the
    /// thread.
    pub fn cut(&self) -> Option<&str> {
        self.cut.as_deref()
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, frame) in self.frames.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{number:>4}: {frame}")?;
        }
        match &self.cut {
            Some(cut) => write!(f, "\n      (the rest is not known: {cut})"),
            None => Ok(()),
        }
    }
}

/// A function on a stack. `Display` is its name, and a second line with the place if it is known.
#[derive(Clone, Debug)]
pub struct Frame {
    pub(crate) address: u64,
    pub(crate) function: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) module: Option<String>,
}

impl Frame {
    /// Where in memory the function goes on when those that it has called return.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its name, demangled, without a hash.
    pub fn function(&self) -> Option<&str> {
        self.function.as_deref()
    }

    /// The source file, as the compiler was told of it.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The same as it is shown: without the folder in which the program runs, without that of the
    /// registry's packages, and without the compiler's commit.
    pub fn short_file(&self) -> Option<&str> {
        self.file().map(shortened)
    }

    /// The line in that file.
    pub fn line(&self) -> Option<u32> {
        self.line
    }

    /// The program or library that it is in.
    pub fn module(&self) -> Option<&str> {
        self.module.as_deref()
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.function, &self.module) {
            (Some(function), _) => f.write_str(function)?,
            (None, Some(module)) => write!(f, "{:#x} in {module}", self.address)?,
            (None, None) => write!(f, "{:#x}", self.address)?,
        }
        let Some(file) = self.short_file() else {
            return Ok(());
        };
        write!(f, "\n        at {file}")?;
        match self.line {
            Some(line) => write!(f, ":{line}"),
            None => Ok(()),
        }
    }
}

/// See [`Frame::short_file`].
fn shortened(file: &str) -> &str {
    if let Some((_, rest)) = file
        .strip_prefix("/rustc/")
        .and_then(|rest| rest.split_once('/'))
    {
        return rest;
    }
    if let Some((_, rest)) = file.split_once("/registry/src/")
        && let Some((_, rest)) = rest.split_once('/')
    {
        return rest;
    }
    let here = std::env::current_dir().ok();
    let rest = here.and_then(|here| Path::new(file).strip_prefix(here).ok());
    rest.and_then(Path::to_str).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_shows_what_is_known_of_it() {
        let mut frame = Frame {
            address: 0x1234,
            function: None,
            file: None,
            line: None,
            module: None,
        };
        assert_eq!(frame.to_string(), "0x1234");
        frame.module = Some("/lib/libc.so.6".to_owned());
        assert_eq!(frame.to_string(), "0x1234 in /lib/libc.so.6");
        frame.function = Some("poll".to_owned());
        assert_eq!(frame.to_string(), "poll");
        frame.file = Some("/rustc/0123abc/library/std/src/lib.rs".to_owned());
        assert_eq!(frame.to_string(), "poll\n        at library/std/src/lib.rs");
        frame.file = Some("/home/me/.cargo/registry/src/an-index-1f/foo-0.1.2/src/a.rs".to_owned());
        assert_eq!(frame.short_file(), Some("foo-0.1.2/src/a.rs"));
        let here = std::env::current_dir().unwrap().join("src/main.rs");
        frame.file = Some(here.to_str().unwrap().to_owned());
        frame.line = Some(7);
        assert_eq!(frame.to_string(), "poll\n        at src/main.rs:7");
        let stack = Stack {
            frames: vec![frame.clone(), frame],
            cut: Some("why".to_owned()),
        };
        let lines = "   0: poll\n        at src/main.rs:7\n   1: poll\n        at src/main.rs:7\n";
        let text = format!("{lines}      (the rest is not known: why)");
        assert_eq!(stack.to_string(), text);
    }
}
