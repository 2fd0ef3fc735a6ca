//! `tokio::fs` in hosts: the same as on the machine's disk, and after a crash what was synced.

use std::{
    cell::Cell,
    io,
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use tokio::{
    fs::{self, File, OpenOptions},
    io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader, BufWriter},
    time::sleep,
};
use tokio_simulated::{Error, twice};

/// Calls of files in a folder, and what they answer.
async fn program(folder: PathBuf) -> Result<Vec<String>, Error> {
    fs::create_dir_all(folder.join("a/b")).await?;
    let path = folder.join("a/lines");
    let mut file = BufWriter::new(File::create(&path).await?);
    for n in 0..3000 {
        file.write_all(format!("line {n}\n").as_bytes()).await?;
    }
    file.flush().await?;
    file.get_ref().sync_all().await?;
    let mut told = vec![fs::metadata(&path).await?.len().to_string()];

    let mut lines = BufReader::new(File::open(&path).await?).lines();
    let mut count = 0;
    while let Some(line) = lines.next_line().await? {
        assert_eq!(line, format!("line {count}"));
        count += 1;
    }
    told.push(count.to_string());

    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .await?;
    file.seek(io::SeekFrom::End(-5)).await?;
    let mut end = String::new();
    file.read_to_string(&mut end).await?;
    file.set_len(7).await?;
    file.rewind().await?;
    let mut begin = String::new();
    file.read_to_string(&mut begin).await?;
    told.extend([end, begin]);

    fs::copy(&path, folder.join("a/copy")).await?;
    fs::rename(&path, folder.join("a/renamed")).await?;
    fs::write(folder.join("a/other"), "other").await?;
    fs::remove_file(folder.join("a/copy")).await?;
    let mut names = Vec::new();
    let mut entries = fs::read_dir(folder.join("a")).await?;
    while let Some(entry) = entries.next_entry().await? {
        let is_folder = entry.file_type().await?.is_dir();
        names.push(format!("{:?} {is_folder}", entry.file_name()));
    }
    names.sort();
    told.extend(names);
    for wrong in [
        fs::read(&path).await.map(drop),
        fs::read(folder.join("a")).await.map(drop),
        fs::create_dir(folder.join("a/b")).await,
        fs::remove_dir(folder.join("a")).await,
    ] {
        told.push(format!("{:?}", wrong.unwrap_err().kind()));
    }
    fs::remove_dir_all(folder.join("a")).await?;
    told.push(fs::try_exists(folder.join("a")).await?.to_string());
    Ok(told)
}

#[test]
fn files_are_as_on_the_machine() {
    let folder = std::env::temp_dir().join(format!("tokio-simulated-files-{}", std::process::id()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let expected = runtime.block_on(program(folder.clone())).unwrap();
    std::fs::remove_dir(folder).unwrap();
    twice(0..40, |sim| {
        let expected = expected.clone();
        sim.client("client", async move {
            sleep(Duration::from_millis(1)).await;
            assert_eq!(program(PathBuf::from("/home/host")).await?, expected);
            Ok::<(), Error>(())
        });
    });
}

/// Counts, and tells of a number when it is safe. After a crash it goes on from its file.
async fn counts(told: Rc<Cell<u64>>) -> io::Result<()> {
    let path = Path::new("count");
    let mut count = match fs::read_to_string(path).await {
        Ok(text) => text.parse().map_err(io::Error::other)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    if count < told.get() {
        return Err(io::Error::other(format!(
            "{count} of {} is left",
            told.get()
        )));
    }
    loop {
        count += 1;
        let mut file = File::create("new").await?;
        file.write_all(count.to_string().as_bytes()).await?;
        file.sync_all().await?;
        fs::rename("new", path).await?;
        File::open(".").await?.sync_all().await?;
        told.set(count);
        sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn what_was_synced_is_there_after_a_crash() {
    twice(0..40, |sim| {
        let told = Rc::new(Cell::new(0));
        let all = told.clone();
        sim.host("host", move || counts(told.clone()));
        for _ in 0..5 {
            sim.after(Duration::from_micros(sim.below(5_000_000)), |sim| {
                sim.crash("host");
                sim.restart("host");
            });
        }
        sim.client("clock", async move {
            sleep(Duration::from_secs(6)).await;
            assert!(all.get() > 100, "{}", all.get());
        });
    });
}
