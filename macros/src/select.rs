//! What `ws::select!` puts before the `select!` of `futures`: a unit of the budget is taken, and if none is left the
//! task yields.
//!
//! A `select!` with a `default` branch does not wait, so it may stand where nothing can be awaited, and it pays nothing.
//! Whether there is such a branch is all that has to be read here. A macro by example cannot: it would walk through
//! the tokens one by one, and meet the compiler's recursion limit in a branch of some length.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

/// `input` is the path of the crate in brackets, and then what stands in the user's `select!`.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let mut tokens = input.into_iter();
    let Some(TokenTree::Group(path)) = tokens.next() else {
        return quote!(::core::compile_error! { "this macro is for `ws::select!` alone" });
    };
    let path = path.stream();
    let branches: TokenStream = tokens.collect();
    let pay = (!has_default(&branches)).then(|| quote!(#path::task::coop::consume_budget().await;));
    quote!({
        #pay
        #path::__private::futures::select! { #branches }
    })
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

    #[test]
    fn what_pays_awaits() {
        let expanded = |input: &str| expand(input.parse().unwrap()).to_string();
        assert!(expanded("[ws] n = a => n").contains("await"));
        assert!(!expanded("[ws] n = a => n, default => 0").contains("await"));
    }
}
