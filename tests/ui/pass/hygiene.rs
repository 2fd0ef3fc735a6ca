//! What the macro emits does not meet the user's names, and a `macro_rules!` can write the function.

#![deny(warnings)]
#![allow(dead_code, non_upper_case_globals, non_camel_case_types)]

mod std {}
mod core {}
struct Result;
struct Builder;
struct Probe;
const runtime: u32 = 1;
const builder: u32 = 2;
const private: u32 = 3;

trait PickPinned {
    fn pick(&self) -> u32;
}

impl PickPinned for u32 {
    fn pick(&self) -> u32 {
        *self
    }
}

macro_rules! entry {
    ($name:ident, $workers:literal, $body:block) => {
        #[ws::main(workers = $workers)]
        async fn $name() -> u32 $body
    };
}

entry!(seven, 2, { 7 });

#[ws::main]
async fn main() {
    assert_eq!(runtime.pick() + builder.pick() + private.pick(), 6);
    let thread = ::std::thread::spawn(seven);
    assert_eq!(thread.join().unwrap(), 7);
}
