//! The runtime under another path, bare and in a string.

#![deny(warnings)]

mod my {
    pub use ws;
}

mod inner {
    #[ws::main(crate = super::my::ws, workers = 2)]
    pub async fn run() -> u32 {
        7
    }
}

#[ws::main(crate = ::ws)]
async fn absolute() -> u32 {
    8
}

#[ws::main(crate = "crate::my::ws")]
async fn in_text() -> u32 {
    9
}

#[ws::main(crate = my::ws)]
async fn main() {
    let entries = [inner::run, absolute, in_text];
    let outside = std::thread::spawn(move || entries.map(|entry| entry()));
    assert_eq!(outside.join().unwrap(), [7, 8, 9]);
}
