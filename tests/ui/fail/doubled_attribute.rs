//! A second attribute of the kind: a test would be registered twice, a runtime started twice.

#[ws::test]
#[test]
async fn std_beside() {}

#[ws::test]
#[core::prelude::v1::test]
async fn spelled_out() {}

#[ws::test]
#[ws::test(workers = 2)]
async fn twice() {}

#[ws::main]
#[ws::main]
async fn main() {}
