//! Programs about names.

use std::{
    ffi::CStr,
    fs::{self, File, OpenOptions, Permissions},
    io::{Read, Write},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::{
            fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink},
            net::UnixDatagram,
        },
    },
    path::Path,
    time::{Duration, SystemTime},
};

use super::trace::{Trace, c, cvt};

pub(crate) fn folders_are_made_and_removed(at: &Path, t: &mut Trace) {
    t.done("make", fs::create_dir(at.join("a")));
    t.done("again", fs::create_dir(at.join("a")));
    t.done("without its parent", fs::create_dir(at.join("b/c")));
    t.done("with a slash", fs::create_dir(at.join("d/")));
    t.done("all", fs::create_dir_all(at.join("a/b/c/d")));
    t.done("all again", fs::create_dir_all(at.join("a/b/c/d")));
    t.done("not empty", fs::remove_dir(at.join("a")));
    t.done("not there", fs::remove_dir(at.join("x")));
    t.done("dot", fs::remove_dir(at.join("a/.")));
    t.done("dot dot", fs::remove_dir(at.join("a/b/..")));
    t.done("below", fs::remove_dir(at.join("a/b/c/d")));
    t.done("file", fs::write(at.join("f"), "x"));
    t.done("not a folder", fs::remove_dir(at.join("f")));
    t.done("over a file", fs::create_dir(at.join("f")));
    t.done("in a file", fs::create_dir(at.join("f/x")));
    t.done("all in a file", fs::create_dir_all(at.join("f/x/y")));
    t.note("links", fs::metadata(at.join("a")).unwrap().nlink());
    t.done("dots", fs::create_dir(at.join("a/..")));
    t.done("root", fs::create_dir("/"));
    t.done(
        "mode",
        fs::DirBuilder::new().mode(0o700).create(at.join("m")),
    );
    let mode = fs::metadata(at.join("m")).unwrap().mode();
    t.note("its mode", format!("{mode:o}"));
}

pub(crate) fn files_are_opened_in_all_modes(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    t.done("not there", File::open(&path));
    t.done("new", File::create_new(&path));
    t.done("not new", File::create_new(&path));
    t.done("write", fs::write(&path, "hello"));
    t.done("truncated", File::create(&path));
    t.note("its length", fs::metadata(&path).unwrap().len());
    t.done("folder", fs::create_dir(at.join("d")));
    t.done("open a folder", File::open(at.join("d")));
    t.done(
        "write to it",
        OpenOptions::new().write(true).open(at.join("d")),
    );
    t.done("create it", File::create(at.join("d")));
    t.done("file as a folder", File::open(at.join("f/")));
    t.done("below a file", File::open(at.join("f/x")));
    t.done("create with a slash", File::create(at.join("g/")));
    let directory = |flags| {
        OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&path)
    };
    t.done("only a folder", directory(libc::O_DIRECTORY));
    t.done("no link", directory(libc::O_NOFOLLOW));
    let mode = |mode| {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(at.join("m"))
    };
    t.done("with a mode", mode(0o640));
    let mode = fs::metadata(at.join("m")).unwrap().mode();
    t.note("its mode", format!("{mode:o}"));
    t.done("no name", File::open(""));
    t.done("no folder", File::create(at.join("x/y")));
}

pub(crate) fn links_are_followed(at: &Path, t: &mut Trace) {
    fs::write(at.join("f"), "text").unwrap();
    fs::create_dir(at.join("d")).unwrap();
    t.done("link", symlink("f", at.join("l")));
    t.done("link again", symlink("f", at.join("l")));
    t.done("to nothing", symlink("", at.join("n")));
    t.say("reads", fs::read_to_string(at.join("l")));
    t.say("target", fs::read_link(at.join("l")));
    t.say("no link", fs::read_link(at.join("f")));
    t.say("nothing", fs::read_link(at.join("x")));
    t.note("length", fs::symlink_metadata(at.join("l")).unwrap().len());
    t.note(
        "is link",
        fs::symlink_metadata(at.join("l")).unwrap().is_symlink(),
    );
    t.note("followed", fs::metadata(at.join("l")).unwrap().is_file());
    let no_follow = |path: &str| {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(at.join(path))
    };
    t.done("not followed", no_follow("l"));
    t.done("dangling", symlink("new", at.join("to-new")));
    t.done("dangling is not there", File::open(at.join("to-new")));
    t.done("exclusive", File::create_new(at.join("to-new")));
    t.done("creates its target", fs::write(at.join("to-new"), "y"));
    t.say("it", fs::read_to_string(at.join("new")));
    t.done("loop", symlink("loop", at.join("loop")));
    t.done("turns", File::open(at.join("loop")));
    t.done("turns below", File::open(at.join("loop/x")));
    t.done("absolute", symlink(at.join("d"), at.join("abs")));
    t.done("through it", fs::write(at.join("abs/inner"), "z"));
    t.say("inner", fs::read_to_string(at.join("d/inner")));
    t.say("up", fs::read_to_string(at.join("abs/../f")));
    t.done("with a slash", fs::symlink_metadata(at.join("l/")));
    t.note(
        "folder",
        fs::symlink_metadata(at.join("abs/")).unwrap().is_dir(),
    );
    t.done("remove a link", fs::remove_file(at.join("abs")));
    t.say("its target stays", fs::read_to_string(at.join("d/inner")));
    t.done("make at a link", fs::create_dir(at.join("to-new")));
    t.done("rmdir of a link", fs::remove_dir(at.join("l")));
}

pub(crate) fn renames_replace_what_they_may(at: &Path, t: &mut Trace) {
    let rename = |a: &str, b: &str| fs::rename(at.join(a), at.join(b));
    for name in ["a", "b"] {
        fs::write(at.join(name), name).unwrap();
    }
    for name in ["d", "e", "full/in"] {
        fs::create_dir_all(at.join(name)).unwrap();
    }
    t.done("not there", rename("x", "y"));
    t.done("over another", rename("a", "b"));
    t.say("it", fs::read_to_string(at.join("b")));
    t.done("is gone", File::open(at.join("a")));
    t.done("to itself", rename("b", "b"));
    t.done("file over folder", rename("b", "d"));
    t.done("folder over file", rename("d", "b"));
    t.done("folder over empty", rename("d", "e"));
    t.done("folder over full", rename("e", "full"));
    t.done("into itself", rename("full", "full/in/x"));
    t.done("onto its parent", rename("full/in", "full"));
    t.done("file with a slash", rename("b", "c/"));
    t.done("folder with a slash", rename("e", "g/"));
    t.done("into a folder", rename("b", "g/b"));
    t.done("no folder", rename("g/b", "none/b"));
    t.done("dot", rename("g/.", "h"));
    t.done("dots", rename("g/b", "g/.."));
    t.done("up", rename("full/in", "in"));
    t.note("parent", fs::canonicalize(at.join("in/..")).unwrap());
    t.done("link", symlink("g", at.join("l")));
    t.done("rename a link", rename("l", "m"));
    t.say("its target", fs::read_link(at.join("m")));
    t.done("replace a link", rename("g/b", "m"));
    t.note(
        "is file",
        fs::symlink_metadata(at.join("m")).unwrap().is_file(),
    );
    t.done("hard link", fs::hard_link(at.join("m"), at.join("n")));
    t.done("one onto the other", rename("m", "n"));
    t.note("both stay", (at.join("m").exists(), at.join("n").exists()));
}

pub(crate) fn a_slash_follows_no_link_whose_name_is_changed(at: &Path, t: &mut Trace) {
    let begin = || {
        let _ = fs::remove_dir_all(at.join("x"));
        fs::create_dir_all(at.join("x/d")).unwrap();
        fs::create_dir_all(at.join("x/o")).unwrap();
        fs::write(at.join("x/f"), "f").unwrap();
        for (target, name) in [("d", "l"), ("none", "n"), ("f", "g")] {
            symlink(target, at.join("x").join(name)).unwrap();
        }
    };
    let ends =
        ["d/", "l/", "n/", "g/", "f/", "none/", "l/.", "d"].map(|end| at.join("x").join(end));
    for end in &ends {
        begin();
        t.done("rmdir", fs::remove_dir(end));
        t.done("unlink", fs::remove_file(end));
        t.done("mkdir", fs::create_dir(end));
        begin();
        t.done("symlink", symlink("f", end));
        t.done("link", fs::hard_link(at.join("x/f"), end));
        t.done("link from", fs::hard_link(end, at.join("x/h")));
        t.done("open", File::open(end));
        t.done("stat", fs::symlink_metadata(end));
        t.done("new", File::create_new(end));
        t.done("socket", UnixDatagram::bind(end));
        for flags in [0, libc::RENAME_NOREPLACE, libc::RENAME_EXCHANGE] {
            for other in ["o", "o/", "e", "e/", "f", "f/", "l", "l/", "n/"] {
                for turned in [false, true] {
                    begin();
                    let mut both = [end.clone(), at.join("x").join(other)];
                    if turned {
                        both.reverse();
                    }
                    let [from, to] = both.each_ref().map(c);
                    let here = libc::AT_FDCWD;
                    // SAFETY: the paths end with NUL.
                    let moved =
                        unsafe { libc::renameat2(here, from.as_ptr(), here, to.as_ptr(), flags) };
                    t.say(&format!("{both:?} {flags}"), cvt(moved));
                }
            }
        }
    }
    let mut left: Vec<_> = fs::read_dir(at.join("x")).unwrap().flatten().collect();
    left.sort_by_key(|entry| entry.file_name());
    t.note("left", left);
}

pub(crate) fn hard_links_share_a_file(at: &Path, t: &mut Trace) {
    let (a, b) = (at.join("a"), at.join("b"));
    fs::write(&a, "one").unwrap();
    t.done("link", fs::hard_link(&a, &b));
    t.done("again", fs::hard_link(&a, &b));
    t.note("count", fs::metadata(&a).unwrap().nlink());
    t.note(
        "same",
        fs::metadata(&a).unwrap().ino() == fs::metadata(&b).unwrap().ino(),
    );
    t.done("write", fs::write(&b, "two"));
    t.say("read", fs::read_to_string(&a));
    t.done("remove", fs::remove_file(&a));
    t.say("other", fs::read_to_string(&b));
    t.note("count", fs::metadata(&b).unwrap().nlink());
    fs::create_dir(at.join("d")).unwrap();
    t.done("of a folder", fs::hard_link(at.join("d"), at.join("e")));
    t.done("of nothing", fs::hard_link(at.join("x"), at.join("e")));
    t.done("no folder", fs::hard_link(&b, at.join("x/y")));
    symlink("b", at.join("l")).unwrap();
    t.done("of a link", fs::hard_link(at.join("l"), at.join("m")));
    t.note(
        "is a link",
        fs::symlink_metadata(at.join("m")).unwrap().is_symlink(),
    );
}

pub(crate) fn removed_files_stay_open(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.write_all(b"kept").unwrap();
    t.done("remove", fs::remove_file(&path));
    t.done("again", fs::remove_file(&path));
    t.note("links", file.metadata().unwrap().nlink());
    t.done("write", file.write_all(b" more"));
    fs::write(&path, "another").unwrap();
    t.note("length", file.metadata().unwrap().len());
    t.say("new one", fs::read_to_string(&path));
    fs::create_dir(at.join("d")).unwrap();
    t.done("remove a folder", fs::remove_file(at.join("d")));
    let folder = File::open(at.join("d")).unwrap();
    t.done("remove an open folder", fs::remove_dir(at.join("d")));
    t.note("its links", folder.metadata().unwrap().nlink());
    // SAFETY: the path ends with NUL.
    let made = unsafe { libc::mkdirat(folder.as_raw_fd(), c"x".as_ptr(), 0o755) };
    t.say("in it", cvt(made));
}

pub(crate) fn relative_paths_begin_in_the_current_folder(at: &Path, t: &mut Trace) {
    // The current folder of the test's process is left alone: a descriptor stands for it.
    let folder = File::open(at).unwrap();
    let open = |path: &str, flags| {
        // SAFETY: the path ends with NUL.
        let fd = unsafe { libc::openat(folder.as_raw_fd(), c(path).as_ptr(), flags, 0o644) };
        // SAFETY: a new descriptor is owned by nobody.
        cvt(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    t.done("new", open("f", libc::O_CREAT | libc::O_WRONLY));
    t.note("is there", at.join("f").exists());
    t.done("not there", open("g", libc::O_RDONLY));
    t.done("up", open("../nothing-of-this-name", libc::O_RDONLY));
    t.done("itself", open(".", libc::O_RDONLY));
    t.done(
        "absolute",
        open(at.join("f").to_str().unwrap(), libc::O_RDONLY),
    );
    let file = File::open(at.join("f")).unwrap();
    // SAFETY: the path ends with NUL.
    let below = unsafe { libc::openat(file.as_raw_fd(), c"x".as_ptr(), libc::O_RDONLY) };
    t.say("below a file", cvt(below));
    // SAFETY: as above.
    let bad = unsafe { libc::openat(-7, c"x".as_ptr(), libc::O_RDONLY) };
    t.say("below nothing", cvt(bad));
}

pub(crate) fn wrong_paths_are_refused(at: &Path, t: &mut Trace) {
    let long = at.join("x".repeat(256));
    t.done("long name", File::create(&long));
    t.done("long name is not there", fs::metadata(&long));
    t.done("longest name", File::create(at.join("x".repeat(255))));
    let deep = format!("{}/{}", at.display(), "./".repeat(3_000));
    t.done("long path", fs::metadata(&deep));
    t.done(
        "double slash",
        fs::create_dir(format!("{}//d", at.display())),
    );
    t.done("dots", fs::metadata(at.join("d/../d/./")));
    t.done("above the root", fs::metadata("/../../../.."));
    t.done("through nothing", fs::metadata(at.join("no/../d")));
    t.done("empty", fs::metadata(""));
    t.done("empty unlink", fs::remove_file(""));
}

fn listed(path: &Path) -> std::io::Result<Vec<(String, bool, bool)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let name = entry.file_name().into_string().unwrap();
        assert_eq!(entry.metadata()?.is_dir(), kind.is_dir());
        all.push((name, kind.is_dir(), kind.is_symlink()));
    }
    all.sort();
    Ok(all)
}

unsafe extern "C" {
    fn readdir_r(
        stream: *mut libc::DIR,
        entry: *mut libc::dirent64,
        out: *mut *mut libc::dirent64,
    ) -> libc::c_int;
}

pub(crate) fn folders_are_listed(at: &Path, t: &mut Trace) {
    t.say("empty", listed(at));
    fs::create_dir(at.join("d")).unwrap();
    symlink("d", at.join("l")).unwrap();
    for n in 0..40 {
        fs::write(at.join(format!("f{n}")), "").unwrap();
    }
    t.say("all", listed(at));
    t.say("of a file", listed(&at.join("f1")));
    t.say("of nothing", listed(&at.join("x")));
    t.say("through a link", listed(&at.join("l")));
    let stream = fs::read_dir(at).unwrap();
    let mut seen = 0;
    for entry in stream {
        fs::remove_file(entry.unwrap().path()).map_or_else(|_| (), |()| seen += 1);
    }
    t.note("removed", seen);
    t.say("left", listed(at));
}

pub(crate) fn places_in_a_folder_are_found_again(at: &Path, t: &mut Trace) {
    for name in ["a", "b", "c"] {
        fs::write(at.join(name), "").unwrap();
    }
    // SAFETY: the path ends with NUL, and the stream is open until the end.
    unsafe {
        let stream = libc::opendir(c(at).as_ptr());
        let next = || {
            let entry = libc::readdir64(stream).as_ref()?;
            Some(CStr::from_ptr(entry.d_name.as_ptr()).to_owned())
        };
        next();
        next();
        let place = libc::telldir(stream);
        let third = next();
        let fourth = next();
        libc::seekdir(stream, place);
        t.note("third", next() == third);
        let place = libc::telldir(stream);
        t.note("fourth", next() == fourth);
        while next().is_some() {}
        libc::seekdir(stream, place);
        t.note("fourth", next() == fourth);
        let mut entry = std::mem::zeroed();
        let mut given = std::ptr::null_mut();
        t.note("by value", readdir_r(stream, &mut entry, &mut given));
        t.note("is there", given == &raw mut entry);
        libc::closedir(stream);
    }
}

pub(crate) fn paths_become_real(at: &Path, t: &mut Trace) {
    fs::create_dir_all(at.join("a/b")).unwrap();
    fs::write(at.join("a/f"), "").unwrap();
    symlink("a/b", at.join("l")).unwrap();
    symlink("../a/f", at.join("a/m")).unwrap();
    for path in [
        "",
        "l",
        "a/m",
        "l/..",
        "a/./b/",
        "a/f/",
        "x",
        "a/f/x",
        "l/../../a/b/..",
    ] {
        t.say(path, fs::canonicalize(at.join(path)));
    }
    t.say("root", fs::canonicalize("/"));
    t.say("of the system", fs::canonicalize("/proc/../proc"));
}

pub(crate) fn permissions_and_times_are_kept(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    let file = File::create(&path).unwrap();
    let mode = |t: &mut Trace| {
        let mode = fs::metadata(&path).unwrap().mode();
        t.note("mode", format!("{mode:o}"));
    };
    t.done(
        "chmod",
        fs::set_permissions(&path, Permissions::from_mode(0o604)),
    );
    mode(t);
    t.done(
        "fchmod",
        file.set_permissions(Permissions::from_mode(0o400)),
    );
    mode(t);
    t.note(
        "read only",
        fs::metadata(&path).unwrap().permissions().readonly(),
    );
    let nothing = at.join("x");
    t.done(
        "of nothing",
        fs::set_permissions(&nothing, Permissions::from_mode(0o0)),
    );
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000, 123_456_789);
    t.done("time", file.set_modified(time));
    let modified = || fs::metadata(&path).unwrap().modified().unwrap();
    t.note("is set", modified() == time);
    let times = fs::FileTimes::new().set_accessed(time);
    t.done("accessed", file.set_times(times));
    let about = fs::metadata(&path).unwrap();
    t.note(
        "seconds",
        (
            about.atime(),
            about.atime_nsec(),
            about.mtime(),
            about.mtime_nsec(),
        ),
    );
    let old = |micros| {
        let [accessed, modified] = [7, 8].map(|tv_sec| libc::timeval {
            tv_sec,
            tv_usec: micros,
        });
        // SAFETY: the path ends with NUL, and there are two times.
        cvt(unsafe { libc::utimes(c(&path).as_ptr(), [accessed, modified].as_ptr()) })
    };
    t.say("by microseconds", old(123_456));
    t.say("too many", old(1_000_000));
    let about = fs::metadata(&path).unwrap();
    t.note(
        "seconds",
        (about.atime(), about.mtime(), about.mtime_nsec()),
    );
    let before = SystemTime::UNIX_EPOCH - Duration::from_millis(1_500);
    t.done("before the epoch", file.set_modified(before));
    let about = fs::metadata(&path).unwrap();
    t.note("seconds", (about.mtime(), about.mtime_nsec()));
    // Without this only root may write it.
    file.set_permissions(Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "x").unwrap();
    t.note("written", modified() > time);
    t.note("born", about.created().is_ok());
}

pub(crate) fn exclusive_and_temporary_files(at: &Path, t: &mut Trace) {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let temporary = |path: &Path| options.clone().custom_flags(libc::O_TMPFILE).open(path);
    let Some(mut file) = t.done("temporary", temporary(at)) else {
        return;
    };
    t.done("write", file.write_all(b"x"));
    t.note("links", file.metadata().unwrap().nlink());
    t.say("no name", listed(at));
    t.done("at a path", temporary(&at.join("x")));
    fs::write(at.join("f"), "").unwrap();
    t.done("at a file", temporary(&at.join("f")));
    let path = c(at);
    let flags = libc::O_TMPFILE | libc::O_RDONLY;
    // SAFETY: the path ends with NUL.
    t.say(
        "to read",
        cvt(unsafe { libc::open(path.as_ptr(), flags, 0o600) }),
    );
}

pub(crate) fn descriptors_of_folders_are_beginnings(at: &Path, t: &mut Trace) {
    fs::create_dir(at.join("d")).unwrap();
    let folder = File::open(at.join("d")).unwrap();
    let fd = folder.as_raw_fd();
    let make = |name: &CStr| {
        // SAFETY: the name ends with NUL, here and below.
        cvt(unsafe { libc::mkdirat(fd, name.as_ptr(), 0o755) })
    };
    // SAFETY: as above.
    let unlink = |name: &CStr, flags| cvt(unsafe { libc::unlinkat(fd, name.as_ptr(), flags) });
    t.say("make", make(c"e"));
    // SAFETY: as above.
    let linked = unsafe { libc::symlinkat(c"e".as_ptr(), fd, c"l".as_ptr()) };
    t.say("link", cvt(linked));
    // SAFETY: as above.
    let renamed = unsafe { libc::renameat(fd, c"e".as_ptr(), fd, c"g".as_ptr()) };
    t.say("rename", cvt(renamed));
    t.say("listed", listed(&at.join("d")));
    t.say("unlink", unlink(c"l", 0));
    t.say("unlink a folder", unlink(c"g", 0));
    t.say("rmdir", unlink(c"g", libc::AT_REMOVEDIR));
    fs::rename(at.join("d"), at.join("moved")).unwrap();
    t.say("after a move", make(c"n"));
    t.say("it is", listed(&at.join("moved")));
    let mut text = String::new();
    t.done("read a folder", (&folder).read_to_string(&mut text));
}

pub(crate) fn renames_with_flags(at: &Path, t: &mut Trace) {
    let rename = |a: &str, b: &str, flags| {
        let (a, b) = (c(at.join(a)), c(at.join(b)));
        let here = libc::AT_FDCWD;
        // SAFETY: both paths end with NUL.
        cvt(unsafe { libc::renameat2(here, a.as_ptr(), here, b.as_ptr(), flags) })
    };
    fs::write(at.join("a"), "a").unwrap();
    fs::create_dir_all(at.join("d/e")).unwrap();
    t.say("keep", rename("a", "b", libc::RENAME_NOREPLACE));
    t.say("kept", rename("b", "d", libc::RENAME_NOREPLACE));
    t.say("swap with nothing", rename("b", "x", libc::RENAME_EXCHANGE));
    t.say("swap", rename("b", "d", libc::RENAME_EXCHANGE));
    t.say("file", fs::read_to_string(at.join("d")));
    t.say("folder", listed(&at.join("b")));
    t.say("into itself", rename("b", "b/e", libc::RENAME_EXCHANGE));
    t.say(
        "both",
        rename("b", "d", libc::RENAME_EXCHANGE | libc::RENAME_NOREPLACE),
    );
}

pub(crate) fn access_is_asked_for(at: &Path, t: &mut Trace) {
    fs::write(at.join("f"), "").unwrap();
    // SAFETY: the path ends with NUL.
    let access = |path: &str, how| cvt(unsafe { libc::access(c(at.join(path)).as_ptr(), how) });
    t.say("is there", access("f", libc::F_OK));
    t.say("is not", access("x", libc::F_OK));
    t.say("read", access("f", libc::R_OK));
    t.say("run", access("f", libc::X_OK));
    t.say("enter", access("", libc::X_OK));
    fs::set_permissions(at.join("f"), Permissions::from_mode(0o755)).unwrap();
    t.say("run it", access("f", libc::X_OK | libc::R_OK));
    t.note(
        "exists",
        (
            at.join("f").try_exists().unwrap(),
            at.join("x").try_exists().unwrap(),
        ),
    );
}

pub(crate) fn everything_is_removed(at: &Path, t: &mut Trace) {
    fs::create_dir_all(at.join("a/b/c")).unwrap();
    for path in ["a/f", "a/b/f", "a/b/c/f"] {
        fs::write(at.join(path), path).unwrap();
    }
    fs::write(at.join("kept"), "kept").unwrap();
    symlink("../kept", at.join("a/l")).unwrap();
    t.done("all", fs::remove_dir_all(at.join("a")));
    t.done("again", fs::remove_dir_all(at.join("a")));
    t.say("left", listed(at));
}
