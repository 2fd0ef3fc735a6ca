//! JSON, as far as it is written here: see <https://www.rfc-editor.org/rfc/rfc8259>.
//!
//! Rejected: `serde_json`. Each user of the executor would build it, for the one packet of a
//! snapshot. `ws-inspect` uses that crate to read what is written here.

use std::fmt::Write;

/// A text in JSON that is being written.
///
/// The caller says what is inside of what. Commas come by themselves.
#[derive(Debug, Default)]
pub struct Json {
    text: String,
    /// Something stands before, at the same depth.
    follows: bool,
}

impl Json {
    /// An object, with what `write` puts into it.
    pub fn object(write: impl FnOnce(&mut Self)) -> String {
        let mut json = Self::default();
        json.braces('{', '}', write);
        json.text
    }

    /// What was written. Without an object around it, that is values with commas between them.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// As empty as a new one.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.follows = false;
    }

    fn value(&mut self) -> &mut String {
        if std::mem::replace(&mut self.follows, true) {
            self.text.push(',');
        }
        &mut self.text
    }

    fn braces(&mut self, open: char, close: char, write: impl FnOnce(&mut Self)) {
        self.value().push(open);
        self.follows = false;
        write(self);
        self.text.push(close);
        self.follows = true;
    }

    /// The name of the member that comes next.
    pub fn key(&mut self, key: &str) -> &mut Self {
        self.text(key);
        self.text.push(':');
        self.follows = false;
        self
    }

    /// An object inside of this.
    pub fn map(&mut self, write: impl FnOnce(&mut Self)) {
        self.braces('{', '}', write);
    }

    /// An array inside of this.
    pub fn list(&mut self, write: impl FnOnce(&mut Self)) {
        self.braces('[', ']', write);
    }

    /// A number.
    pub fn number(&mut self, number: u64) {
        // A text takes what is written to it.
        let _ = write!(self.value(), "{number}");
    }

    /// `true` or `false`.
    pub fn truth(&mut self, truth: bool) {
        self.value().push_str(if truth { "true" } else { "false" });
    }

    /// No value.
    pub fn null(&mut self) {
        self.value().push_str("null");
    }

    /// A value that was written elsewhere, in JSON.
    pub fn raw(&mut self, value: &str) {
        self.value().push_str(value);
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        let out = self.value();
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                c if c < ' ' => _ = write!(out, "\\u{:04x}", u32::from(c)),
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_the_rfc_says() {
        let text = Json::object(|json| {
            json.key("a").number(u64::MAX);
            json.key("b\"").list(|list| {
                list.text("tab\t, end\n, back\\slash, \u{1}, ü");
                list.map(|_| ());
                list.list(|inner| inner.null());
                list.truth(true);
            });
            json.key("c").map(|map| map.key("d").truth(false));
        });
        let expected = concat!(
            r#"{"a":18446744073709551615,"b\"":["tab\u0009, end\n, back\\slash, \u0001, ü","#,
            r#"{},[null],true],"c":{"d":false}}"#
        );
        assert_eq!(text, expected);
    }
}
