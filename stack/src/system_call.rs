//! The system call in which a thread is blocked.

use std::fmt;

use crate::system;

/// A system call. `Display` is its name, or `system call` and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall(pub(crate) i64);

impl SystemCall {
    /// Its number on this system.
    pub fn number(self) -> i64 {
        self.0
    }

    /// Its name, if it is one of those in which threads wait.
    pub fn name(self) -> Option<&'static str> {
        system::name_of_call(self.0)
    }
}

impl fmt::Display for SystemCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "system call {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_a_name_shows_its_number() {
        assert_eq!(SystemCall(987_654).to_string(), "system call 987654");
        if cfg!(all(
            feature = "unwind",
            target_os = "linux",
            target_arch = "x86_64"
        )) {
            assert_eq!(SystemCall(230).to_string(), "clock_nanosleep");
        }
    }
}
