//! What `ws::select!` puts before the `select!` of `futures`: a unit of the budget is taken, and if
//! none is left the task yields.
//!
//! A `select!` with a `default` branch does not wait, so it may stand where nothing can be awaited,
//! and it pays nothing. Whether there is such a branch is all that has to be read here. A macro by
//! example cannot: it would walk through the tokens one by one, and meet the compiler's recursion
//! limit in a branch of some length.
//!
//! # A future that is not fused
//!
//! The `select!` of `futures` refuses it, and does not say what is missing. So the future of each
//! branch passes through `fused`. The bound of `fused` has a message that says `.fuse()`. A future
//! that is borrowed by name stays a name: `futures` tells it by that. It is checked beside the
//! `select!`, in code that never runs.
//!
//! # In a simulation
//!
//! `futures` draws the branch that is polled first from a count of the process, so a seed would not
//! be repeated. With the feature `sim` of `ws` the draw is made here: [`Order::Drawn`] expands to a
//! `select_biased!` for each branch that may be first, and the others follow in their order. Each
//! body stands there as often as there are branches, so this is for builds of tests alone.
//!
//! Rejected: a `select!` of our own. It would be a second copy of that of `futures`, for all
//! programs, and for the sake of tests.

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

/// Which branch is polled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As `futures` draws it.
    Random,
    /// As `ws::__private::drawn` says.
    Drawn,
}

/// `input` is the path of the crate in brackets, and then what stands in the user's `select!`.
pub(crate) fn expand(input: TokenStream, order: Order) -> TokenStream {
    let mut tokens = input.into_iter();
    let Some(TokenTree::Group(path)) = tokens.next() else {
        return quote!(::core::compile_error! { "this macro is for `ws::select!` alone" });
    };
    let path = path.stream();
    let branches: TokenStream = tokens.collect();
    let pay = (!has_default(&branches)).then(|| quote!(#path::task::coop::consume_budget().await;));
    let (branches, names) = with_checks(branches, &path);
    let waits: Vec<_> = branches.iter().filter(|it| it.has_future).collect();
    let select = match order {
        Order::Drawn if waits.len() > 1 => {
            let others = branches.iter().filter(|it| !it.has_future);
            let others: TokenStream = others.map(Branch::with_comma).collect();
            let count = waits.len();
            let biased = (0..count).map(|first| {
                let (before, after) = waits.split_at(first);
                let turned = after.iter().chain(before).map(|it| it.with_comma());
                let turned: TokenStream = turned.collect();
                let place = if first + 1 == count {
                    quote!(_)
                } else {
                    quote!(#first)
                };
                quote!(#place => #path::__private::futures::select_biased! { #turned #others },)
            });
            quote!(match #path::__private::drawn(#count) { #(#biased)* })
        }
        _ => {
            let branches: TokenStream = branches.into_iter().map(|it| it.tokens).collect();
            quote!(#path::__private::futures::select! { #branches })
        }
    };
    quote!({
        #pay
        #(if false { #path::__private::check_fused(#names); })*
        #select
    })
}

/// A branch of a `select!`.
struct Branch {
    tokens: TokenStream,
    /// It is neither `default` nor `complete`.
    has_future: bool,
}

impl Branch {
    /// It, where another branch follows.
    fn with_comma(&self) -> TokenStream {
        let tokens = &self.tokens;
        let ends = tokens.clone().into_iter().last();
        match ends.is_some_and(|last| is_alone(&last, ',')) {
            true => tokens.clone(),
            false => quote!(#tokens,),
        }
    }
}

/// The branches, with a check around each future that is made in place; and the futures that are
/// borrowed by name.
fn with_checks(branches: TokenStream, path: &TokenStream) -> (Vec<Branch>, Vec<TokenStream>) {
    let mut tokens = branches.into_iter().peekable();
    let (mut all, mut names) = (Vec::new(), Vec::new());
    while tokens.peek().is_some() {
        let mut checked = TokenStream::new();
        // The pattern, up to a `=` that is no part of a longer operator; `default` and `complete`
        // have none.
        let mut before = ' ';
        let has_future = loop {
            let Some(token) = tokens.next() else {
                break false;
            };
            let alone = is_alone(&token, '=') && !matches!(before, '=' | '!' | '<' | '>' | '.');
            let arrow = before == '=' && is_alone(&token, '>');
            before = joint(&token);
            checked.extend([token]);
            if alone || arrow {
                break alone;
            }
        };
        if has_future {
            let mut future = Vec::new();
            while let Some(token) = tokens.next() {
                if joint(&token) == '=' && tokens.peek().is_some_and(|next| is_alone(next, '>')) {
                    let arrow = tokens.next();
                    checked.extend(check(future, path, &mut names));
                    checked.extend([Some(token), arrow].into_iter().flatten());
                    future = Vec::new();
                    break;
                }
                future.push(token);
            }
            // No arrow: `futures` says so.
            checked.extend(future);
        }
        // What the branch does: a block, or all up to a comma that is not between the `<` and the
        // `>` of a path. Such a `<` follows a `::`, or begins the branch.
        let mut begins = true;
        let (mut generics, mut before) = (0_usize, [' '; 2]);
        while let Some(token) = tokens.next() {
            let ends = match &token {
                TokenTree::Punct(punct) => {
                    match punct.as_char() {
                        '<' if generics > 0 || begins || before == [':'; 2] => generics += 1,
                        '>' if !matches!(before[1], '-' | '=') => {
                            generics = generics.saturating_sub(1);
                        }
                        _ => {}
                    }
                    punct.as_char() == ',' && generics == 0
                }
                TokenTree::Group(group) => {
                    let follows = tokens.peek().is_some_and(|next| is_alone(next, ','));
                    begins && group.delimiter() == Delimiter::Brace && !follows
                }
                _ => false,
            };
            begins = false;
            before = [before[1], punct(&token)];
            checked.extend([token]);
            if ends {
                break;
            }
        }
        all.push(Branch {
            tokens: checked,
            has_future,
        });
    }
    (all, names)
}

/// A future with its check; a name, with its check elsewhere; or a reference, which is left to
/// `futures`.
fn check(future: Vec<TokenTree>, path: &TokenStream, names: &mut Vec<TokenStream>) -> TokenStream {
    let is_name = future.iter().all(|token| match token {
        TokenTree::Ident(_) => true,
        TokenTree::Punct(punct) => punct.as_char() == ':',
        _ => false,
    });
    // A reference to what would live as long as the `select!` would not in an argument.
    let is_borrowed =
        matches!(&future[..], [TokenTree::Punct(punct), ..] if punct.as_char() == '&');
    let span = future.first().map_or_else(Span::call_site, TokenTree::span);
    let future: TokenStream = future.into_iter().collect();
    if is_name {
        names.push(quote_spanned!(span=> &#future));
    }
    if is_name || is_borrowed {
        return future;
    }
    quote!(#path::__private::fused(#future))
}

fn is_alone(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct)
        if punct.as_char() == char && punct.spacing() == Spacing::Alone)
}

/// The character of a part of an operator; else a space.
fn punct(token: &TokenTree) -> char {
    match token {
        TokenTree::Punct(punct) => punct.as_char(),
        _ => ' ',
    }
}

/// The character of an operator that goes on; else a space.
fn joint(token: &TokenTree) -> char {
    match token {
        TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint => punct.as_char(),
        _ => ' ',
    }
}

/// Whether `default =>` stands where a branch begins: first, or behind a comma or a block.
fn has_default(branches: &TokenStream) -> bool {
    let tokens: Vec<TokenTree> = branches.clone().into_iter().collect();
    let begins = |at: usize| match at.checked_sub(1).map(|before| &tokens[before]) {
        None | Some(TokenTree::Group(_)) => true,
        Some(TokenTree::Punct(punct)) => punct.as_char() == ',',
        Some(_) => false,
    };
    let is = |at: usize, char: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == char);
    tokens.iter().enumerate().any(|(at, token)| {
        matches!(token, TokenTree::Ident(ident) if ident == "default")
            && begins(at)
            && is(at + 1, '=')
            && is(at + 2, '>')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_in(branches: &str) -> bool {
        has_default(&branches.parse().unwrap())
    }

    #[test]
    fn a_default_branch_is_seen_where_it_may_stand() {
        assert!(default_in("default => 1"));
        assert!(default_in("n = a => n, default => 1"));
        assert!(default_in("n = a => { n } default => 1, complete => 2"));
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        assert!(!default_in("default = a => default, n = b => n"));
        assert!(!default_in(
            "n = a => match n { default => 1 }, m = default => m"
        ));
    }

    /// The branches behind their checks, and the names beside them, without spaces.
    fn checked(branches: &str) -> (String, Vec<String>) {
        let (checked, names) = with_checks(branches.parse().unwrap(), &quote!(p));
        let text = |tokens: TokenStream| tokens.to_string().replace(' ', "");
        let checked = checked.into_iter().map(|it| it.tokens).collect();
        (text(checked), names.into_iter().map(text).collect())
    }

    #[test]
    fn each_future_is_checked() {
        let cases = [
            (
                "n = f() => n, m = g().h() => { m } () = i() => (),",
                "n=p::__private::fused(f())=>n,m=p::__private::fused(g().h())=>{m}()=p::__private::fused(i())=>(),",
            ),
            (
                "n = f() => x = n, complete => break, default => ()",
                "n=p::__private::fused(f())=>x=n,complete=>break,default=>()",
            ),
            (
                "n = f() => g::<A, B>(n), m = f(|x| x == 1) => m",
                "n=p::__private::fused(f())=>g::<A,B>(n),m=p::__private::fused(f(|x|x==1))=>m",
            ),
            (
                "n = f() => { n }, m = a => m,",
                "n=p::__private::fused(f())=>{n},m=a=>m,",
            ),
            (
                "n = f() => A::<B, Box<dyn Fn(u8) -> C<D, E>>>::new(), m = a() => <A as B<C, D>>::x(m), o = b() => o < m, p = c() => p,",
                "n=p::__private::fused(f())=>A::<B,Box<dynFn(u8)->C<D,E>>>::new(),m=p::__private::fused(a())=><AasB<C,D>>::x(m),o=p::__private::fused(b())=>o<m,p=p::__private::fused(c())=>p,",
            ),
            ("n = &mut f() => n", "n=&mutf()=>n"),
            ("1..=5 = f() => ()", "1..=5=p::__private::fused(f())=>()"),
            ("no arrow = f()", "noarrow=f()"),
        ];
        for (given, expected) in cases {
            assert_eq!(checked(given).0, expected);
        }
        let named = checked("n = a => n, m = self::b => m, o = c.d => o, default => 0");
        assert_eq!(named.1, ["&a", "&self::b"]);
        assert!(named.0.contains("o=p::__private::fused(c.d)"));
    }

    #[test]
    fn what_pays_awaits() {
        let expanded = |input: &str| expand(input.parse().unwrap(), Order::Random).to_string();
        assert!(expanded("[ws] n = a => n").contains("await"));
        assert!(!expanded("[ws] n = a => n, default => 0").contains("await"));
    }

    #[test]
    fn each_branch_may_be_drawn_as_the_first() {
        let drawn = |branches: &str| {
            let expanded = expand(format!("[p] {branches}").parse().unwrap(), Order::Drawn);
            let text = expanded.to_string().replace(' ', "");
            text.split_once("{}")
                .map_or(text.clone(), |(_, rest)| rest.to_owned())
        };
        let text = drawn("n = a => { n } m = b => m, default => 0");
        let biased = "p::__private::futures::select_biased!";
        let expected = format!(
            "matchp::__private::drawn(2usize){{\
             0usize=>{biased}{{n=a=>{{n}},m=b=>m,default=>0,}},\
             _=>{biased}{{m=b=>m,n=a=>{{n}},default=>0,}},}}"
        );
        assert!(text.contains(&expected), "{text}");
        let text = drawn("n = a => n, complete => 0");
        assert!(
            text.contains("futures::select!{n=a=>n,complete=>0}"),
            "{text}"
        );
    }
}
