//! The program that the tests of the page look at: a shop with orders, which computes, waits, marks
//! what it does, and now and then blocks.
//!
//! ```text
//! shop ADDRESS [--idle N] [--quiet] [--empty] [--dir FOLDER]
//! ```
//!
//! `--idle N` adds so many tasks that wait for ever, `--quiet` takes all others away, `--empty`
//! shows another runtime, in which nothing is, and `--dir` is a folder for snapshots. It prints
//! where the page is, and obeys lines on its standard input:
//! `spawn NAME`, `stall`, `mark TEXT`, `cpu`, `end`.
#![expect(
    clippy::print_stdout,
    reason = "a program that reports on its standard output"
)]

use std::{env, error::Error, fs, io::BufRead, thread, time::Duration};

use ws::{
    runtime::{Builder, Handle},
    task,
    time::sleep,
    trace::{self, Snapshots},
};

type Failure = Box<dyn Error + Send + Sync>;

struct Args {
    address: String,
    idle: usize,
    quiet: bool,
    empty: bool,
    dir: Option<String>,
}

fn args() -> Result<Args, Failure> {
    let mut args = env::args().skip(1);
    let mut parsed = Args {
        address: args.next().ok_or("an address is missing")?,
        idle: 0,
        quiet: false,
        empty: false,
        dir: None,
    };
    while let Some(arg) = args.next() {
        match &*arg {
            "--idle" => parsed.idle = args.next().ok_or("how many?")?.parse()?,
            "--quiet" => parsed.quiet = true,
            "--empty" => parsed.empty = true,
            "--dir" => parsed.dir = Some(args.next().ok_or("which folder?")?),
            other => return Err(format!("{other} is not known").into()),
        }
    }
    Ok(parsed)
}

fn main() -> Result<(), Failure> {
    let args = args()?;
    let mut builder = Builder::new()
        .workers(3)
        .stall_threshold(Duration::from_millis(60));
    if let Some(dir) = &args.dir {
        builder = builder.snapshots(Snapshots::to(dir));
    }
    let runtime = builder.build()?;
    runtime.run(serve(args))
}

async fn serve(args: Args) -> Result<(), Failure> {
    let other = Builder::new().workers(1).build()?;
    let page = if args.empty {
        ws::inspect::serve_of(other.handle(), &*args.address).await?
    } else {
        ws::inspect::serve(&*args.address).await?
    };
    for _ in 0..args.idle {
        ws::spawn(std::future::pending::<()>());
    }
    if !args.quiet {
        open_the_shop();
    }
    println!("http://{}", page.addr());
    let handle = Handle::current();
    let reader = thread::spawn(move || read_orders(&handle));
    ws::spawn_blocking(move || reader.join())
        .await?
        .map_err(|_| "it panicked")?;
    Ok(())
}

/// Obeys the lines of the standard input, up to its end.
fn read_orders(handle: &Handle) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let (order, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match order {
            "spawn" => {
                let builder = task::Builder::new().name(rest);
                builder.spawn_on(std::future::pending::<()>(), handle);
            }
            "stall" => {
                let builder = task::Builder::new().name("report");
                builder.spawn_on(async { thread::sleep(Duration::from_millis(250)) }, handle);
            }
            "mark" => {
                let text: &'static str = rest.to_owned().leak();
                handle.spawn(async move { trace::mark(text) });
            }
            "cpu" => println!("{}", cpu_ticks()),
            _ => return,
        }
    }
}

/// The CPU time of this process so far, in hundredths of a second.
fn cpu_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let fields = after_name.split(' ').skip(11).take(2);
    fields.filter_map(|it| it.parse::<u64>().ok()).sum()
}

fn open_the_shop() {
    let named = |name: &str| task::Builder::new().name(name);
    for customer in 0..40_u64 {
        named("customer").spawn(async move {
            let mut n = customer;
            loop {
                sleep(Duration::from_millis(80 + n * 37 % 700)).await;
                n = n * 31 % 9973 + 1;
                order(n).await;
            }
        });
    }
    named("prices").spawn(async {
        loop {
            sleep(Duration::from_millis(400)).await;
            trace::mark("new prices");
        }
    });
    named("stock").spawn(async {
        loop {
            sleep(Duration::from_millis(900)).await;
            let _span = trace::span("count the stock");
            compute_us(8000);
            sleep(Duration::from_millis(120)).await;
        }
    });
    named("archive").spawn(async {
        loop {
            sleep(Duration::from_millis(1300)).await;
            let call = ws::spawn_blocking(|| thread::sleep(Duration::from_millis(260)));
            call.await.expect("it does not panic");
        }
    });
}

async fn order(n: u64) {
    let items = (0..n % 5).map(|item| {
        ws::spawn(async move {
            compute_us(item * n * 7 % 900);
            task::yield_now().await;
        })
    });
    let items: Vec<_> = items.collect();
    for item in items {
        item.await.expect("it does not panic");
    }
    if n.is_multiple_of(17) {
        let _span = trace::span("pay");
        sleep(Duration::from_millis(90)).await;
    }
}

/// Some microseconds of work.
fn compute_us(us: u64) {
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_micros(us) {
        std::hint::spin_loop();
    }
}
