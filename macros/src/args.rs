//! Reads what stands in the parentheses: `workers = 4, crate = my::ws`; on a test also
//! `paused, seed = 7`, on a simulation `seeds = 1000`.
//!
//! # The grammar
//!
//! ```text
//! args  = [ arg { "," arg } [ "," ] ]
//! arg   = "workers" "=" integer of at least 1
//!       | "paused"                            on a test
//!       | "seed"    "=" integer               on a test that is paused, and on a simulation
//!       | "seeds"   "=" ( integer of at least 1 | integer ".." integer )   on a simulation
//!       | "builder" "=" expression            on a simulation
//!       | "crate"   "=" ( path | string that holds a path )
//! ```
//!
//! A paused test has one worker; `workers = 1` may say so. A simulation has `seed` or `seeds`.
//!
//! Each key stands at most once. A key that is not listed here is an error that lists those that
//! are: a misspelt knob that is passed over in silence would be worse than one that does not exist.
//!
//! # A fault does not end the reading
//!
//! An attribute that is being edited mostly has one wrong argument beside good ones. So
//! [`Args::parse`] returns all that it understood together with all that it did not: after a fault
//! it goes on behind the next comma. The expansion is then made from the good arguments and stands
//! beside the errors, which keeps the function alive for the editor and keeps follow-up errors
//! away.
//!
//! Every error points at the smallest text that has to change: an unknown or repeated key at the
//! key, a bad value at the value; of two that contradict each other, at the one that has to go.
//!
//! # Why `workers` is a literal
//!
//! 0 can only be refused while compiling if the number is known to the macro. A number that is
//! known at run time belongs to `ws::runtime::Builder` (or to the variable `WS_WORKERS`), which
//! says so in an error of its own.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, Lit, LitInt, LitStr, Path, Token};

use crate::entry::Entry;

/// What a value of `seed` has to look like.
const SEED_SHAPE: &str = "`seed` takes an integer literal below 2^64, as in `seed = 7`";

/// What a value of `seeds` has to look like.
const SEEDS_SHAPE: &str =
    "`seeds` takes a number of seeds or a range of them, as in `seeds = 1000` or `seeds = 5..10`";

/// What a value of `builder` has to look like.
const BUILDER_SHAPE: &str = "`builder` takes an expression, as in \
     `builder = ws::sim::Sim::builder().time_limit(ws::sim::secs(60))`";

/// What `paused` has to look like.
const PAUSED_SHAPE: &str = "`paused` takes no value: it stands alone, as in `paused, seed = 7`";

/// What a value of `workers` has to look like.
const WORKERS_SHAPE: &str = "`workers` takes an integer literal of at least 1, as in `workers = 4`; \
     for a number that is known only at run time use `ws::runtime::Builder`";

/// What a value of `crate` has to look like.
const CRATE_SHAPE: &str = "`crate` takes the path of the runtime's crate, as in `crate = my::ws`";

/// The arguments of `#[ws::main]`, `#[ws::test]` and `#[ws::sim]`.
#[derive(Default)]
pub(crate) struct Args {
    /// The number of workers as a `usize` literal, with the span of the user's.
    pub(crate) workers: Option<LitInt>,
    /// The key `paused`, if it is there.
    pub(crate) paused: Option<Ident>,
    /// The seed as a `u64` literal, with the span of the user's.
    pub(crate) seed: Option<LitInt>,
    /// The seeds of a simulation, as a range of `u64` literals that has both its ends.
    pub(crate) seeds: Option<TokenStream>,
    /// The builder of a simulation.
    pub(crate) builder: Option<TokenStream>,
    /// Where the runtime's crate is found; `::ws` if not given.
    pub(crate) krate: Option<Path>,
}

impl Args {
    /// Reads all arguments of `entry`; what could not be read is in the error.
    pub(crate) fn parse(entry: Entry, tokens: TokenStream) -> (Self, Option<syn::Error>) {
        let mut args = Self::default();
        let mut seed_key = None;
        let mut fault = None;
        let read_all = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if let Err(error) = args.parse_one(entry, &mut seed_key, input) {
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
        if let Some(error) = args.contradiction(entry, seed_key) {
            combine(&mut fault, error);
        }
        (args, fault)
    }

    /// What is wrong with arguments that are good each by itself; what is in the way is left out.
    fn contradiction(&mut self, entry: Entry, seed_key: Option<Ident>) -> Option<syn::Error> {
        if entry == Entry::Sim {
            self.seeds.as_ref()?;
            let message = "`seed` is one seed, and `seeds` are many: one of the two has to go";
            return seed_key.map(|key| syn::Error::new(key.span(), message));
        }
        if self.paused.is_none() {
            self.seed = None;
            let message =
                "`seed` goes with `paused`: without it the order of tasks follows from no seed";
            return seed_key.map(|key| syn::Error::new(key.span(), message));
        }
        let workers = self.workers.take()?;
        if workers.base10_digits() == "1" {
            return None;
        }
        let message = "a `paused` test has one worker, so that its tasks run in one order: leave `workers` out";
        Some(syn::Error::new(workers.span(), message))
    }

    /// Reads one argument and stops before the comma.
    fn parse_one(
        &mut self,
        entry: Entry,
        seed_key: &mut Option<Ident>,
        input: ParseStream<'_>,
    ) -> syn::Result<()> {
        let known = known(entry);
        if !input.peek(Ident::peek_any) {
            return Err(input.error(format!("expected an argument; known are {known}")));
        }
        let key = Ident::parse_any(input)?;
        let name = key.to_string();
        let repeated = match (name.as_str(), entry) {
            ("workers", _) => self.workers.is_some(),
            ("crate", _) => self.krate.is_some(),
            ("paused", Entry::Test) => self.paused.is_some(),
            ("seed", Entry::Test | Entry::Sim) => seed_key.is_some(),
            ("seeds", Entry::Sim) => self.seeds.is_some(),
            ("builder", Entry::Sim) => self.builder.is_some(),
            ("paused" | "seed", Entry::Main) => {
                let message = format!(
                    "`{name}` is for tests, as in `#[ws::test(paused, seed = 7)]`; for a program in virtual \
                     time use `ws::runtime::Builder::clock`"
                );
                return Err(syn::Error::new(key.span(), message));
            }
            _ => {
                let message = match tokios(&name, entry) {
                    Some(ours) => format!("`{name}` is tokio's word: {ours}"),
                    None => format!("unknown argument `{name}`; known are {known}"),
                };
                return Err(syn::Error::new(key.span(), message));
            }
        };
        if repeated {
            let message = format!("`{name}` is given twice");
            return Err(syn::Error::new(key.span(), message));
        }
        if name == "paused" {
            self.paused = Some(key);
            let value = take_value(input)?;
            return if value.is_empty() {
                Ok(())
            } else {
                Err(syn::Error::new_spanned(value, PAUSED_SHAPE))
            };
        }
        let shape = match name.as_str() {
            "workers" => WORKERS_SHAPE,
            "seed" => SEED_SHAPE,
            "seeds" => SEEDS_SHAPE,
            "builder" => BUILDER_SHAPE,
            _ => CRATE_SHAPE,
        };
        if name == "seed" {
            *seed_key = Some(key.clone());
        }
        if !input.peek(Token![=]) {
            return Err(syn::Error::new(key.span(), shape));
        }
        input.parse::<Token![=]>()?;
        let value = take_value(input)?;
        if value.is_empty() {
            return Err(syn::Error::new(key.span(), shape));
        }
        match name.as_str() {
            "workers" => self.workers = Some(parse_workers(value)?),
            "seed" => self.seed = Some(parse_seed(value)?),
            "seeds" => self.seeds = Some(parse_seeds(value)?),
            "builder" => match syn::parse2::<Expr>(value.clone()) {
                Ok(_) => self.builder = Some(value),
                Err(_) => return Err(syn::Error::new_spanned(value, BUILDER_SHAPE)),
            },
            _ => self.krate = Some(parse_crate(value)?),
        }
        Ok(())
    }
}

/// The keys that `entry` takes, as a message lists them.
fn known(entry: Entry) -> &'static str {
    match entry {
        Entry::Main => "`workers` and `crate`",
        Entry::Test => "`workers`, `paused`, `seed` and `crate`",
        Entry::Sim => "`seeds`, `seed`, `workers`, `builder` and `crate`",
    }
}

/// What to say here for an argument of tokio's attributes: these mostly replace them.
fn tokios(name: &str, entry: Entry) -> Option<&'static str> {
    match (name, entry) {
        ("worker_threads", _) => Some("here it is `workers`, as in `workers = 4`"),
        ("flavor", _) => Some(
            "there is one scheduler here, for any number of workers; `workers = 1` runs one task at a time",
        ),
        ("start_paused", Entry::Test) => {
            Some("here it is `paused`, which takes no value, as in `paused, seed = 7`")
        }
        ("start_paused", Entry::Sim) => Some("in a simulation time is virtual: leave it out"),
        ("start_paused", Entry::Main) => Some(
            "here `paused` is for tests; for a program in virtual time use `ws::runtime::Builder::clock`",
        ),
        _ => None,
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

/// Reads the value of `seed`: a plain or `u64` integer.
fn parse_seed(value: TokenStream) -> syn::Result<LitInt> {
    match syn::parse2(value.clone()).ok().and_then(number) {
        Some((seed, span)) => Ok(LitInt::new(&format!("{seed}u64"), span)),
        None => Err(syn::Error::new_spanned(&value, SEED_SHAPE)),
    }
}

/// A plain or `u64` integer, with its place.
fn number(literal: Lit) -> Option<(u64, Span)> {
    let Lit::Int(literal) = literal else {
        return None;
    };
    let is_u64 = matches!(literal.suffix(), "" | "u64");
    let number = literal.base10_parse().ok().filter(|_| is_u64)?;
    Some((number, literal.span()))
}

/// Reads the value of `seeds`: a number of them, or a range.
fn parse_seeds(value: TokenStream) -> syn::Result<TokenStream> {
    let read = |input: ParseStream<'_>| {
        let shape = || input.error(SEEDS_SHAPE);
        let (begin, span) = number(input.parse()?).ok_or_else(shape)?;
        let (first, end) = if input.is_empty() {
            (0, begin)
        } else {
            input.parse::<Token![..]>()?;
            (begin, number(input.parse()?).ok_or_else(shape)?.0)
        };
        Ok((first, end, span))
    };
    let (first, end, span) = read
        .parse2(value.clone())
        .map_err(|_| syn::Error::new_spanned(&value, SEEDS_SHAPE))?;
    if first >= end {
        let message = "there is no seed here, so nothing would run: give at least one";
        return Err(syn::Error::new_spanned(value, message));
    }
    let last = end - 1;
    let [first, last] = [first, last].map(|seed| LitInt::new(&format!("{seed}u64"), span));
    Ok(quote!(#first..=#last))
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
mod tests;
