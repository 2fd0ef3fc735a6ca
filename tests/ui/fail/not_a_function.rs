//! The attribute stands on something that is no function with a body; the item stays.

#[ws::main]
struct Server {
    port: u16,
}

trait Serve {
    #[ws::test]
    async fn serve();
}

fn main() {
    let server = Server { port: 8080 };
    drop(server.port);
}
