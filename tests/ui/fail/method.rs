//! A method has a receiver, and the runtime has no value for it.

struct Server;

impl Server {
    #[ws::main]
    async fn serve(&self) {
        self.accept().await;
    }

    async fn accept(&self) {}
}

fn main() {}
