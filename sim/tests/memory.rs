//! Many simulations in one process leave nothing behind.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicIsize, Ordering::Relaxed},
    time::Duration,
};

use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};

struct Counting;

static ALIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: it is the system's allocator, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALIVE.fetch_add(layout.size() as isize, Relaxed);
        // SAFETY: by contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALIVE.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: by contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn some_seeds(count: u64) -> isize {
    ws_sim::check(0..count, |sim| {
        sim.host("server", || async {
            let listener = TcpListener::bind("0.0.0.0:7").await?;
            ws::fs::create_dir_all("a/b").await?;
            let file = ws::fs::File::create("a/b/log").await?;
            ws::fs::write("a/new", [7; 20_000]).await?;
            ws::fs::rename("a/new", "a/old").await?;
            assert_eq!(std::fs::read_dir("a")?.count(), 2);
            file.sync_all().await?;
            loop {
                let (mut peer, _) = listener.accept().await?;
                ws::spawn(async move {
                    let mut buffer = [0; 16];
                    while let Ok(len @ 1..) = peer.read(&mut buffer).await {
                        peer.write_all(&buffer[..len]).await.unwrap();
                    }
                });
            }
            #[allow(unreachable_code)]
            std::io::Result::Ok(())
        });
        // It holds the simulation, which holds it.
        let clone = sim.clone();
        sim.after(Duration::from_secs(9_999), move |_| drop(clone));
        let faults = sim.clone();
        sim.client("client", async move {
            for i in 0..5 {
                let mut stream = TcpStream::connect("server:7").await.unwrap();
                stream.write_all(b"hello").await.unwrap();
                stream.read_exact(&mut [0; 5]).await.unwrap();
                if i % 2 == 0 {
                    faults.crash_hard("server");
                }
                faults.restart("server");
                sleep(Duration::from_secs(1)).await;
            }
        });
    });
    ALIVE.load(Relaxed)
}

#[test]
fn two_hundred_seeds_are_flat() {
    let begin = some_seeds(20);
    let end = some_seeds(200);
    assert!(
        end - begin < 20_000,
        "{begin} bytes after 20 seeds, {end} after 220"
    );
}
