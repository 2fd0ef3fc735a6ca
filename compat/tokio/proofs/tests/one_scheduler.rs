//! No thread and no epoll of tokio's own is in the process. A file of its own, since it counts
//! those of the whole process.

use std::time::Duration;

use tokio::time;

/// All threads are those of `ws`, and there is one epoll for each runtime.
#[test]
fn there_is_one_scheduler() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("one")
        .enable_all()
        .build()
        .unwrap();
    let epolls = || {
        let fds = std::fs::read_dir("/proc/self/fd").unwrap();
        fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
            .filter(|link| link.to_string_lossy().contains("eventpoll"))
            .count()
    };
    let before = epolls();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                tokio::spawn(async {
                    time::sleep(Duration::from_millis(1)).await;
                    tokio::task::spawn_blocking(|| ()).await.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(epolls(), before);
    let names: Vec<_> = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
        .collect();
    assert!(
        !names.iter().any(|name| name.starts_with("tokio")),
        "{names:?}"
    );
}
