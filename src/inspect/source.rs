//! What a page is of: a program that runs, or a file. And what a page asks for.

use std::{fs::File, io, str::FromStr, sync::Arc};

pub use ws_executor::viewer::{EVENTS_FIELD, Field, Json, PACKET_FIELD, TASK_FIELDS, Viewer};

pub use super::rows::{Rows, Summary, tasks_json};

/// The most rows of an answer. A screen has some 50.
const ROWS_MAX: usize = 500;

/// What a page is of.
pub trait Source: Send + Sync + 'static {
    /// The JSON that answers a page.
    fn answer(&self, ask: &Ask) -> String;

    /// Whether an answer takes so much time that it is better made on a thread that may block.
    fn is_large(&self) -> bool;

    /// The snapshot, as a file. It is read from its begin, wherever its cursor is.
    ///
    /// # Errors
    ///
    /// Those of a file.
    fn file(&self) -> io::Result<Arc<File>>;

    /// Writes a snapshot into the program's folder, if it has one. Whether that has begun.
    fn snapshot(&self) -> bool;

    /// Forgets the pages that have gone. Whether there are others.
    fn tidy(&self) -> bool;
}

/// What a page asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// A number that the page drew.
    pub page: u64,
    /// How far the page has read each ring; none if it wants no events.
    pub cursor: Option<Vec<u64>>,
    /// Each poll is to be recorded. The page had the token.
    pub each_poll: bool,
    /// Which tasks it wants, if any.
    pub tasks: Option<AskTasks>,
}

/// Which tasks a page wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskTasks {
    /// The field to sort by.
    pub sort: String,
    /// The largest first.
    pub descending: bool,
    /// One state alone; empty: all.
    pub state: String,
    /// A text that one of the fields has, in lower case; empty: all.
    pub search: String,
    /// How many rows are left out at the begin.
    pub offset: usize,
    /// How many rows there may be.
    pub limit: usize,
}

impl Ask {
    /// What a query says. `trusted`: the request had the token.
    pub(super) fn parse(query: &str, trusted: bool) -> Self {
        let mut ask = Self::default();
        let mut tasks = AskTasks::default();
        let mut wants_tasks = false;
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "page" => ask.page = number(&value),
                "events" => ask.cursor = Some(value.split('.').map(number).collect()),
                "each_poll" => ask.each_poll = trusted && value == "1",
                "sort" => {
                    wants_tasks = true;
                    tasks.sort = value.into_owned();
                }
                "down" => tasks.descending = value == "1",
                "state" => tasks.state = value.into_owned(),
                "search" => tasks.search = value.to_lowercase(),
                "offset" => tasks.offset = number(&value),
                "limit" => tasks.limit = number::<usize>(&value).min(ROWS_MAX),
                _ => {}
            }
        }
        ask.tasks = wants_tasks.then_some(tasks);
        ask
    }
}

/// What is no number is 0, or whatever a number is by default.
fn number<N: FromStr + Default>(text: &str) -> N {
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read() {
        let query = "page=7&events=1.2.x&each_poll=1&sort=age&down=1&search=A%20b&limit=9999999";
        let ask = Ask::parse(query, true);
        let tasks = AskTasks {
            sort: "age".into(),
            descending: true,
            search: "a b".into(),
            limit: ROWS_MAX,
            ..AskTasks::default()
        };
        let expected = Ask {
            page: 7,
            cursor: Some(vec![1, 2, 0]),
            each_poll: true,
            tasks: Some(tasks),
        };
        assert_eq!(ask, expected);
        assert!(!Ask::parse(query, false).each_poll, "it has no token");
        assert_eq!(Ask::parse("", true), Ask::default());
    }
}
