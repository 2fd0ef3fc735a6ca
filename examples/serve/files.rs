//! Files of one folder.
//!
//! A path is taken apart before it is decoded, so that an encoded slash is no separator, and each
//! part has to be a plain name. Hidden files are not served. What is left is joined to the folder
//! and resolved, links and all, and has to be in the folder still: a link may point to another file
//! in there, but not out of it.
//!
//! Someone who may write in the folder could swap a part of the path for a link between that check
//! and the opening. They could as well put a copy of anything they can read there.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Component, Path, PathBuf},
};

use hyper::{StatusCode, header::HeaderValue};

use crate::{
    body::{Content, FileReader},
    routes::{Answer, Fault},
};

/// Answers with the file at `path`, which is as it stands in the URL.
pub(crate) async fn get(dir: &Path, path: &str) -> Result<Answer, Fault> {
    let path = resolve(dir, path)?;
    let content_type = content_type(&path);
    let dir = dir.to_owned();
    let opened = ws::spawn_blocking(move || open(&dir, &path))
        .await
        .map_err(|error| Fault::internal(&error))?;
    let (file, len) = opened.map_err(|error| match error.kind() {
        // Links in a circle. The kind has no stable name.
        _ if error.raw_os_error() == Some(libc::ELOOP) => not_found(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => not_found(),
        ErrorKind::PermissionDenied => Fault::new(StatusCode::FORBIDDEN, "not readable"),
        _ => Fault::internal(&error),
    })?;
    Ok(Answer {
        content_type: HeaderValue::from_static(content_type),
        content: Content::File(FileReader::new(file, len)),
    })
}

fn not_found() -> Fault {
    Fault::new(StatusCode::NOT_FOUND, "no such file")
}

/// The file's path below `dir`, of plain names only.
fn resolve(dir: &Path, path: &str) -> Result<PathBuf, Fault> {
    let mut resolved = dir.to_owned();
    for part in path.split('/') {
        let name = decode(part)
            .ok_or_else(|| Fault::new(StatusCode::BAD_REQUEST, "this path is not encoded well"))?;
        let mut components = Path::new(&name).components();
        match (components.next(), components.next()) {
            (Some(Component::Normal(plain)), None)
                if plain == name.as_str() && !name.starts_with('.') && !name.contains('\0') => {}
            _ => return Err(not_found()),
        }
        resolved.push(name);
    }
    Ok(resolved)
}

/// Resolves `%41` and the like; none if that is cut short, no number, or no text.
fn decode(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let [high, low, after @ ..] = after else {
            return None;
        };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// Opens a file that is in `dir` with all links resolved. Blocks.
fn open(dir: &Path, path: &Path) -> io::Result<(File, u64)> {
    let real = fs::canonicalize(path)?;
    // Asked before it is opened: opening a pipe waits for whoever writes to it.
    if !real.starts_with(dir) || !fs::metadata(&real)?.is_file() {
        return Err(ErrorKind::NotFound.into());
    }
    let file = File::open(real)?;
    let len = file.metadata()?.len();
    Ok((file, len))
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("txt" | "md" | "rs" | "toml") => "text/plain; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        _ => "application/octet-stream",
    }
}
