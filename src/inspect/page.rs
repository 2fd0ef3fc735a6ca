//! The page: one text, put together from the files in `page/`.
//!
//! The files are joined when the program is compiled, and are not changed: what is in the
//! repository is what the browser runs.

use std::{fs::File, io, io::Read, sync::LazyLock};

/// The parts of the script, in the order in which they run: each uses those before it.
const SCRIPTS: &[&str] = &[
    include_str!("page/text.js"),
    include_str!("page/columns.js"),
    include_str!("page/server.js"),
    include_str!("page/lanes.js"),
    include_str!("page/timeline.js"),
    include_str!("page/tasks.js"),
    include_str!("page/panels.js"),
    include_str!("page/main.js"),
];

const STYLE: &str = concat!(
    include_str!("page/base.css"),
    include_str!("page/parts.css")
);

/// What stands in the page in place of what differs from one start to the next.
const NONCE: &str = "{{nonce}}";
const TOKEN: &str = "{{token}}";

/// The page without what differs.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    include_str!("page/page.html")
        .replace("{{style}}", STYLE)
        .replace("{{script}}", &SCRIPTS.concat())
});

/// The page, with a token, and the header that allows its own script and style and nothing else.
pub(super) fn page(token: &str) -> io::Result<(String, String)> {
    let nonce = random()?;
    let policy = format!(
        "content-security-policy: default-src 'none'; script-src 'nonce-{nonce}'; \
         style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'\r\n"
    );
    let page = PAGE.replace(NONCE, &nonce).replace(TOKEN, token);
    Ok((page, policy))
}

/// 128 random bits as a text.
pub(super) fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_filled_in() {
        let (page, policy) = page("the token").unwrap();
        assert!(page.contains("\"the token\""));
        assert!(!page.contains("{{"), "a place is not filled in");
        let nonce = policy.split("nonce-").nth(1).unwrap();
        let nonce = nonce.split('\'').next().unwrap();
        assert_eq!(page.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
        assert_ne!(random().unwrap(), random().unwrap());
    }

    // Fails if something from outside is loaded, or if a name could become markup.
    #[test]
    fn the_page_is_whole_and_takes_names_as_text() {
        let (page, _) = page("").unwrap();
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "src=",
            "@import",
            "url(http",
            " onclick=",
            " style=",
        ] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
