//! PostgreSQL and Redis, for the rows that need one.

use crate::{Options, Program, Round, interleaved};

pub(crate) fn with_redis(program: &Program, options: &Options, rounds: &mut Vec<Round>) {
    let server = ws_test_servers::redis();
    interleaved(program, options, &[server.port().to_string()], rounds);
}

pub(crate) fn with_postgres(program: &Program, options: &Options, rounds: &mut Vec<Round>) {
    let server = ws_test_servers::postgres();
    interleaved(program, options, &[server.port().to_string()], rounds);
}
