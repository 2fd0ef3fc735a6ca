//! Reads what stands in the parentheses: `workers = 4, crate = my::ws`.
//!
//! # The grammar
//!
//! ```text
//! args  = [ arg { "," arg } [ "," ] ]
//! arg   = "workers" "=" integer of at least 1
//!       | "crate"   "=" ( path | string that holds a path )
//! ```
//!
//! Each key stands at most once, and a key that is not listed here is an error that lists those that
//! are: a misspelt knob that is passed over in silence would be worse than one that does not exist.
//!
//! # A fault does not end the reading
//!
//! Whoever edits an attribute mostly has one wrong argument beside good ones. So [`Args::parse`]
//! returns all that it understood together with all that it did not: after a fault it goes on behind
//! the next comma. The expansion is then made from the good arguments and stands beside the errors,
//! which keeps the function alive for the editor and keeps follow-up errors away.
//!
//! Every error points at the smallest text that has to change: an unknown or repeated key at the
//! key, a bad value at the value.
//!
//! # Why `workers` is a literal
//!
//! 0 can only be refused while compiling if the number is known to the macro. A number that is known
//! at run time belongs to `ws::runtime::Builder` (or to the variable `WS_WORKERS`), which says so in
//! an error of its own.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Ident, Lit, LitInt, LitStr, Path, Token};

/// The keys that exist, as a message lists them.
const KNOWN: &str = "`workers` and `crate`";

/// What a value of `workers` has to look like.
const WORKERS_SHAPE: &str = "`workers` takes an integer literal of at least 1, as in `workers = 4`; \
     for a number that is known only at run time use `ws::runtime::Builder`";

/// What a value of `crate` has to look like.
const CRATE_SHAPE: &str = "`crate` takes the path of the runtime's crate, as in `crate = my::ws`";

/// The arguments of `#[ws::main]` and `#[ws::test]`.
#[derive(Default)]
pub(crate) struct Args {
    /// The number of workers as a `usize` literal, with the span of the user's.
    pub(crate) workers: Option<LitInt>,
    /// Where the runtime's crate is found; `::ws` if not given.
    pub(crate) krate: Option<Path>,
}

impl Args {
    /// Reads all arguments; what could not be read is in the error.
    pub(crate) fn parse(tokens: TokenStream) -> (Self, Option<syn::Error>) {
        let mut args = Self::default();
        let mut fault = None;
        let read_all = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if let Err(error) = args.parse_one(input) {
                    combine(&mut fault, error);
                    skip_to_comma(input)?;
                }
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        if let Err(error) = read_all.parse2(tokens) {
            combine(&mut fault, error);
        }
        (args, fault)
    }

    /// Reads one `key = value` and stops before the comma.
    fn parse_one(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error(format!("expected an argument; known are {KNOWN}")));
        }
        let key = Ident::parse_any(input)?;
        let name = key.to_string();
        let repeated = match name.as_str() {
            "workers" => self.workers.is_some(),
            "crate" => self.krate.is_some(),
            _ => {
                let message = format!("unknown argument `{name}`; known are {KNOWN}");
                return Err(syn::Error::new(key.span(), message));
            }
        };
        if repeated {
            let message = format!("`{name}` is given twice");
            return Err(syn::Error::new(key.span(), message));
        }
        let shape = if name == "workers" {
            WORKERS_SHAPE
        } else {
            CRATE_SHAPE
        };
        if !input.peek(Token![=]) {
            return Err(syn::Error::new(key.span(), shape));
        }
        input.parse::<Token![=]>()?;
        let value = take_value(input)?;
        if value.is_empty() {
            return Err(syn::Error::new(key.span(), shape));
        }
        if name == "workers" {
            self.workers = Some(parse_workers(value)?);
        } else {
            self.krate = Some(parse_crate(value)?);
        }
        Ok(())
    }
}

/// Adds an error to those that were found before.
pub(crate) fn combine(all: &mut Option<syn::Error>, error: syn::Error) {
    match all {
        Some(first) => first.combine(error),
        None => *all = Some(error),
    }
}

/// Takes the tokens up to the next comma, so that a fault covers the whole value and nothing else.
fn take_value(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let mut value = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        value.extend([input.parse::<TokenTree>()?]);
    }
    Ok(value)
}

/// Leaves out the rest of an argument that could not be read.
fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    take_value(input).map(drop)
}

/// Reads the value of `workers`: a plain or `usize` integer, 1 or more.
fn parse_workers(value: TokenStream) -> syn::Result<LitInt> {
    let Ok(Lit::Int(literal)) = syn::parse2(value.clone()) else {
        return Err(syn::Error::new_spanned(value, WORKERS_SHAPE));
    };
    // The parser takes a minus sign into the literal.
    let negative = literal.base10_digits().starts_with('-');
    if negative || !matches!(literal.suffix(), "" | "usize") {
        return Err(syn::Error::new_spanned(value, WORKERS_SHAPE));
    }
    match literal.base10_parse::<usize>() {
        Ok(0) => Err(syn::Error::new_spanned(
            value,
            "`workers` is at least 1: without a worker nothing would ever run",
        )),
        Ok(count) => Ok(LitInt::new(&format!("{count}usize"), literal.span())),
        Err(_) => Err(syn::Error::new_spanned(
            value,
            "`workers` does not fit into a `usize`",
        )),
    }
}

/// Reads the value of `crate`: a path, bare or in a string.
fn parse_crate(value: TokenStream) -> syn::Result<Path> {
    let path = if let Ok(text) = syn::parse2::<LitStr>(value.clone()) {
        text.parse_with(Path::parse_mod_style)
    } else {
        Path::parse_mod_style.parse2(value.clone())
    };
    path.map_err(|_| syn::Error::new_spanned(value, CRATE_SHAPE))
}

/// The path of the runtime's crate when no `crate = ...` is given.
pub(crate) fn default_crate() -> Path {
    let mut path = Path::from(Ident::new("ws", Span::call_site()));
    path.leading_colon = Some(Token![::](Span::call_site()));
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;

    fn parse(source: &str) -> (Args, Option<syn::Error>) {
        Args::parse(source.parse().unwrap())
    }

    /// The arguments, which have to be without a fault.
    fn good(source: &str) -> (Option<String>, Option<String>) {
        let (args, fault) = parse(source);
        if let Some(fault) = fault {
            panic!("`{source}` is refused: {fault}");
        }
        let text = |tokens: &dyn ToTokens| tokens.to_token_stream().to_string().replace(' ', "");
        (
            args.workers.map(|n| text(&n)),
            args.krate.map(|path| text(&path)),
        )
    }

    /// Each fault as the text that it points at and its message.
    fn faults(source: &str) -> Vec<(String, String)> {
        let fault = parse(source)
            .1
            .unwrap_or_else(|| panic!("`{source}` is accepted"));
        fault
            .into_iter()
            .map(|error| {
                (
                    error.span().source_text().unwrap_or_default(),
                    error.to_string(),
                )
            })
            .collect()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn nothing_and_trailing_comma() {
        assert_eq!(good(""), (None, None));
        assert_eq!(good("workers = 4,"), (some("4usize"), None));
    }

    #[test]
    fn workers_in_every_notation() {
        assert_eq!(good("workers = 1").0, some("1usize"));
        assert_eq!(good("workers = 16usize").0, some("16usize"));
        assert_eq!(good("workers = 0x1_0").0, some("16usize"));
    }

    #[test]
    fn crate_as_path_and_as_string() {
        assert_eq!(good("crate = my::ws").1, some("my::ws"));
        assert_eq!(good("crate = ::ws").1, some("::ws"));
        assert_eq!(good("crate = crate").1, some("crate"));
        assert_eq!(good(r#"crate = "my::ws""#).1, some("my::ws"));
        assert_eq!(
            good(r#"crate = "crate::rt", workers = 2"#),
            (some("2usize"), some("crate::rt"))
        );
    }

    #[test]
    fn zero_workers_points_at_the_literal() {
        let found = faults("workers = 0");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "0");
        assert!(found[0].1.contains("at least 1"), "{}", found[0].1);
    }

    #[test]
    fn workers_takes_nothing_but_an_integer() {
        for value in ["\"4\"", "-1", "4.0", "4u8", "COUNT", "2 + 2", "true"] {
            let found = faults(&format!("workers = {value}"));
            assert_eq!(found, [(value.to_owned(), WORKERS_SHAPE.to_owned())]);
        }
        let huge = "99999999999999999999999999";
        assert_eq!(faults(&format!("workers = {huge}"))[0].0, huge);
    }

    #[test]
    fn crate_takes_nothing_but_a_path() {
        for value in ["4", "\"not a path\"", "a.b", "Vec<u8>"] {
            let found = faults(&format!("crate = {value}"));
            assert_eq!(found, [(value.to_owned(), CRATE_SHAPE.to_owned())]);
        }
    }

    #[test]
    fn missing_value_points_at_the_key() {
        for source in ["workers", "workers =", "workers, crate = ws"] {
            assert_eq!(
                faults(source),
                [("workers".to_owned(), WORKERS_SHAPE.to_owned())]
            );
        }
        assert_eq!(
            faults("crate ="),
            [("crate".to_owned(), CRATE_SHAPE.to_owned())]
        );
    }

    #[test]
    fn unknown_key_lists_the_known_ones() {
        for key in ["worker_threads", "flavor", "paused", "seed"] {
            let found = faults(&format!("{key} = 4"));
            assert_eq!(found[0].0, key);
            assert!(
                found[0].1.contains("`workers` and `crate`"),
                "{}",
                found[0].1
            );
        }
        assert_eq!(faults("paused")[0].0, "paused");
    }

    #[test]
    fn a_key_stands_once() {
        let found = faults("workers = 2, crate = ws, workers = 3, crate = other");
        let keys: Vec<_> = found.iter().map(|(at, _)| at.as_str()).collect();
        assert_eq!(keys, ["workers", "crate"]);
        assert_eq!(found[0].1, "`workers` is given twice");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        assert_eq!(faults("4")[0].0, "4");
        assert_eq!(faults(", workers = 4")[0].0, ",");
    }

    #[test]
    fn all_faults_are_reported_and_the_rest_is_kept() {
        let (args, fault) = parse("paused, workers = 0, crate = my::ws, seed = 7");
        let keys: Vec<_> = fault
            .expect("three faults")
            .into_iter()
            .map(|error| error.span().source_text().unwrap_or_default())
            .collect();
        assert_eq!(keys, ["paused", "0", "seed"]);
        assert!(args.workers.is_none());
        assert!(args.krate.is_some());
    }

    #[test]
    fn the_default_crate_is_absolute() {
        let path = default_crate()
            .to_token_stream()
            .to_string()
            .replace(' ', "");
        assert_eq!(path, "::ws");
    }
}
