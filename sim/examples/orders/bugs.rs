//! Ten planted bugs: small programs. Each one fails in some orders, and not in others.
//!
//! Each stands for a mistake that is made in services. The steps before and after the window are
//! part of it: a request parses, asks others and logs, and the window is two steps among forty.

use std::{cell::Cell, cell::RefCell, io, rc::Rc, time::Duration};

use futures::{channel::oneshot, lock::Mutex};
use ws::{
    net::UdpSocket,
    spawn_local,
    task::yield_now,
    time::{sleep, timeout},
};
use ws_sim::Sim;

/// A name, the hosts of the program, and how many pairs of steps have to be in a certain order.
pub(crate) struct Bug {
    pub(crate) name: &'static str,
    pub(crate) depth: u32,
    pub(crate) plant: fn(&Sim),
}

pub(crate) const BUGS: [Bug; 10] = [
    bug("lost update across an await", 2, lost_update),
    bug("check, then act", 2, check_then_act),
    bug("missed notification", 2, missed_notification),
    bug("order of three tasks", 3, order_of_three),
    bug("ABA in a free list", 4, aba),
    bug("deadlock by the order of locks", 2, lock_order),
    bug("closed twice: idle timer and peer", 3, double_close),
    bug("read from an old leader", 2, old_leader),
    bug("retry that doubles a request", 1, retry),
    bug("stale timer after a reset", 3, stale_timer),
];

const fn bug(name: &'static str, depth: u32, plant: fn(&Sim)) -> Bug {
    Bug { name, depth, plant }
}

const MS: Duration = Duration::from_millis(1);

async fn steps(count: u32) {
    for _ in 0..count {
        yield_now().await;
    }
}

/// Tasks that have nothing to do with it.
fn others() {
    for _ in 0..3 {
        spawn_local(steps(20));
    }
}

/// Runs tasks of one host, and waits for all of them.
macro_rules! together {
    ($($task:expr),+ $(,)?) => {{
        others();
        for task in [$(spawn_local($task)),+] {
            task.await.expect("it does not panic");
        }
    }};
}

// Two requests add to an account. One comes late.
fn lost_update(sim: &Sim) {
    sim.client("bank", async {
        let account = Rc::new(Cell::new(0));
        let add = |account: Rc<Cell<u32>>, before, after| async move {
            steps(before).await;
            let read = account.get();
            steps(1).await; // asks for the rate
            account.set(read + 1);
            steps(after).await;
        };
        together!(add(account.clone(), 20, 0), add(account.clone(), 0, 20));
        assert_eq!(account.get(), 2, "an update is lost");
    });
}

// Some requests want one of two places.
fn check_then_act(sim: &Sim) {
    sim.client("hotel", async {
        let free = Rc::new(Cell::new(2_i32));
        let book = |free: Rc<Cell<i32>>, before| async move {
            steps(before).await;
            if free.get() > 0 {
                steps(1).await; // takes the money
                free.set(free.get() - 1);
            }
            steps(10).await;
        };
        together!(
            book(free.clone(), 0),
            book(free.clone(), 9),
            book(free.clone(), 18),
            book(free.clone(), 27),
        );
        assert!(free.get() >= 0, "a place is sold twice");
    });
}

// A waiter looks, and then registers. What comes in between wakes nobody.
fn missed_notification(sim: &Sim) {
    sim.client("queue", async {
        let ready = Rc::new(Cell::new(false));
        let waiter = Rc::new(RefCell::new(None::<oneshot::Sender<()>>));
        let waits = {
            let (ready, waiter) = (ready.clone(), waiter.clone());
            async move {
                steps(3).await;
                if !ready.get() {
                    steps(1).await; // logs that it waits
                    let (sender, receiver) = oneshot::channel();
                    waiter.replace(Some(sender));
                    receiver.await.expect("it is sent");
                }
            }
        };
        let notifies = async move {
            steps(25).await;
            ready.set(true);
            if let Some(waiter) = waiter.take() {
                waiter.send(()).expect("it waits");
            }
        };
        together!(waits, notifies);
    });
}

// A reader is right if it comes before both writers, between them, or after both; but it reads in
// two halves.
fn order_of_three(sim: &Sim) {
    sim.client("settings", async {
        let (rate, limit) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let set = |what: Rc<Cell<u32>>, before| async move {
            steps(before).await;
            what.set(1);
            steps(10).await;
        };
        let reads = {
            let (rate, limit) = (rate.clone(), limit.clone());
            async move {
                steps(12).await;
                let first = rate.get();
                steps(2).await;
                let second = limit.get();
                steps(2).await;
                let again = rate.get();
                assert!(
                    !(first == 0 && second == 1 && again == 0),
                    "the limit without its rate"
                );
            }
        };
        together!(reads, set(rate, 1), set(limit, 24));
    });
}

// A free list: A, then B, then C. A pop reads the head and its next, and compares the head alone.
fn aba(sim: &Sim) {
    type List = Rc<RefCell<Vec<char>>>;
    async fn pop(list: &List) -> Option<char> {
        loop {
            let head = *list.borrow().last()?;
            let below = list.borrow().iter().rev().nth(1).copied();
            steps(1).await;
            let mut list = list.borrow_mut();
            if list.last() == Some(&head) {
                list.pop();
                assert_eq!(list.last().copied(), below, "its next is another one");
                return Some(head);
            }
        }
    }
    sim.client("allocator", async {
        let list: List = Rc::new(RefCell::new(vec!['C', 'B', 'A']));
        let takes = {
            let list = list.clone();
            async move {
                steps(4).await;
                pop(&list).await;
            }
        };
        let takes_two = async move {
            steps(15).await;
            let first = pop(&list).await;
            steps(2).await;
            let _second = pop(&list).await;
            steps(2).await;
            list.borrow_mut().extend(first);
            steps(5).await;
        };
        together!(takes, takes_two);
    });
}

fn lock_order(sim: &Sim) {
    sim.client("transfers", async {
        let (a, b) = (Rc::new(Mutex::new(())), Rc::new(Mutex::new(())));
        let transfer = |from: Rc<Mutex<()>>, to: Rc<Mutex<()>>, before| async move {
            steps(before).await;
            let _from = from.lock().await;
            steps(1).await;
            let _to = to.lock().await;
            steps(10).await;
        };
        together!(
            transfer(a.clone(), b.clone(), 2),
            transfer(b.clone(), a.clone(), 30),
        );
    });
}

// The idle timer closes a connection, and so does its peer.
fn double_close(sim: &Sim) {
    async fn close(open: &Cell<bool>, closes: &Cell<u32>) {
        if open.get() {
            steps(1).await; // flushes
            closes.set(closes.get() + 1);
            open.set(false);
        }
    }
    sim.host("peer", || async {
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        sleep(MS * 5).await;
        socket.send_to(b"bye", "server:1").await.map(drop)
    });
    sim.client("server", async {
        let socket = UdpSocket::bind("0.0.0.0:1").await.expect("it is free");
        let (open, closes) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(0)));
        let idle = {
            let (open, closes) = (open.clone(), closes.clone());
            async move {
                sleep(MS * 5 + MS / 10).await; // when the datagram comes
                steps(12).await;
                close(&open, &closes).await;
            }
        };
        let peer = {
            let (open, closes) = (open.clone(), closes.clone());
            async move {
                socket.recv_from(&mut [0; 9]).await.expect("it comes");
                close(&open, &closes).await;
            }
        };
        together!(idle, peer);
        assert_eq!(closes.get(), 1, "it is closed twice");
    });
}

// A coordinator moves the lead. The old leader still answers.
fn old_leader(sim: &Sim) {
    let value = Rc::new(Cell::new(0));
    let (leads, written) = (Rc::new(Cell::new(true)), value.clone());
    sim.host("old", move || {
        let leads = leads.clone();
        async move {
            let socket = UdpSocket::bind("0.0.0.0:1").await?;
            let from_client = UdpSocket::bind("0.0.0.0:2").await?;
            let told = leads.clone();
            spawn_local(async move {
                socket.recv_from(&mut [0; 9]).await?;
                steps(5).await; // stores it
                told.set(false);
                io::Result::Ok(())
            });
            let (_, client) = from_client.recv_from(&mut [0; 9]).await?;
            let answer = if leads.get() { b"0" } else { b"?" };
            from_client.send_to(answer, client).await.map(drop)
        }
    });
    sim.host("new", move || {
        let written = written.clone();
        async move {
            let socket = UdpSocket::bind("0.0.0.0:1").await?;
            let (_, from) = socket.recv_from(&mut [0; 9]).await?;
            steps(20).await;
            written.set(1);
            socket.send_to(b"ok", from).await.map(drop)
        }
    });
    sim.client("client", async move {
        others();
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        sleep(MS).await;
        socket.send_to(b"lead", "new:1").await?;
        socket.send_to(b"rest", "old:1").await?;
        // Reads where it always read, when the write may be done.
        socket.send_to(b"read", "old:2").await?;
        let mut answer = [0; 1];
        loop {
            let (_, from) = socket.recv_from(&mut answer).await?;
            if from.port() == 2 {
                break;
            }
        }
        assert!(!(answer == *b"0" && value.get() == 1), "an old value");
        io::Result::Ok(())
    });
}

// The answer takes as long as the client waits for it.
fn retry(sim: &Sim) {
    let handled = Rc::new(Cell::new(0));
    let count = handled.clone();
    sim.host("server", move || {
        let count = count.clone();
        async move {
            let socket = UdpSocket::bind("0.0.0.0:1").await?;
            loop {
                let (_, from) = socket.recv_from(&mut [0; 9]).await?;
                count.set(count.get() + 1);
                steps(3).await;
                socket.send_to(b"ok", from).await?;
            }
            #[allow(unreachable_code)]
            io::Result::Ok(())
        }
    });
    sim.client("client", async move {
        others();
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        sleep(MS).await;
        for _ in 0..3 {
            socket.send_to(b"add", "server:1").await?;
            let wait = async {
                let received = socket.recv_from(&mut [0; 9]).await;
                steps(8).await; // decodes it
                received
            };
            if let Ok(answer) = timeout(MS / 5, wait).await {
                answer?;
                break;
            }
        }
        sleep(MS).await;
        assert_eq!(handled.get(), 1, "it is done twice");
        io::Result::Ok(())
    });
}

// A heartbeat resets the watchdog at the time at which that fires.
fn stale_timer(sim: &Sim) {
    sim.client("watchdog", async {
        let last = Rc::new(Cell::new(0_u32));
        let fired = Rc::new(Cell::new(false));
        let watches = {
            let (last, fired) = (last.clone(), fired.clone());
            async move {
                let seen = last.get();
                sleep(MS * 10).await;
                steps(2).await; // takes the lock
                if last.get() == seen {
                    steps(1).await;
                    fired.set(true);
                }
            }
        };
        let beats = async move {
            sleep(MS * 10).await;
            steps(15).await;
            assert!(!fired.get() || last.get() == 0);
            last.set(1);
            let before = fired.get();
            steps(20).await;
            assert_eq!(fired.get(), before, "it fires after its reset");
        };
        together!(watches, beats);
    });
}
