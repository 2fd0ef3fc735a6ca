//! A type parameter, a lifetime and a `where` clause: nobody could choose them.

#[ws::main]
async fn typed<T: Default>() -> T {
    T::default()
}

#[ws::main]
async fn lifetime<'a>() -> &'a str {
    "text"
}

#[ws::test]
async fn bounded()
where
    u8: Copy,
{
}

fn main() {}
