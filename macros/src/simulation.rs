//! `#[ws::sim]`: from a function that adds hosts to a test with many seeds.
//!
//! # What comes out
//!
//! `#[ws::sim(seeds = 1000)] async fn name(sim: Sim) -> Ret { body }` becomes
//!
//! ```text
//! #[::core::prelude::v1::test]
//! fn name() {
//!     async fn name(sim: Sim) -> Ret { body }
//!     ::ws::sim::__private::test(
//!         ::core::concat!(::core::module_path!(), "::", "name"),
//!         ::ws::sim::Sim::builder(),
//!         0u64..=999u64,
//!         |__ws_sim| ::ws::sim::__private::block(name(__ws_sim)),
//!     )
//! }
//! ```
//!
//! | part | why |
//! | --- | --- |
//! | the inner function | it is what the user wrote, token for token, as under `#[ws::test]` |
//! | its name, with the path | the line that replays a failure names it |
//! | `block` | polls the body once: `sim.run()` does the whole run in one poll. A plain `fn` has none |
//!
//! The test returns nothing: what is wrong is in the panic of the check, with the seed. The closure
//! stands at the place of the user's types, so errors about these point there.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, Ident, ReturnType, Signature, Type};

use crate::args::{Args, default_crate};
use crate::entry::{Entry, Function, inner_function};

/// Seeds of a test that does not say.
const SEEDS: u64 = 100;

/// What is wrong with the arguments of a function: the place to point at.
pub(crate) fn wrong_inputs(signature: &Signature) -> Option<TokenStream> {
    let mut inputs = signature.inputs.to_token_stream();
    signature.variadic.to_tokens(&mut inputs);
    match signature.inputs.first() {
        None => Some(signature.ident.to_token_stream()),
        Some(FnArg::Typed(one)) if signature.inputs.len() == 1 && signature.variadic.is_none() => {
            let is_reference = matches!(&*one.ty, Type::Reference(_));
            is_reference.then(|| one.ty.to_token_stream())
        }
        Some(_) => Some(inputs),
    }
}

/// Emits the test that calls the body with each seed.
pub(crate) fn emit(args: &Args, function: &Function) -> TokenStream {
    let Function {
        attributes,
        visibility,
        signature,
        ..
    } = function;
    let Signature {
        fn_token, ident, ..
    } = signature;
    let inner = inner_function(Entry::Sim, function);
    let krate = args.krate.clone().unwrap_or_else(default_crate);
    let name = ident.to_string();
    let name = name.strip_prefix("r#").unwrap_or(&name);
    let builder = match &args.builder {
        Some(builder) => builder.clone(),
        None => quote!(#krate::sim::Sim::builder()),
    };
    let workers = args.workers.as_ref().map(|count| quote!(.workers(#count)));
    let seeds = match (&args.seeds, &args.seed) {
        (Some(seeds), _) => seeds.clone(),
        (None, Some(seed)) => quote!(#seed..=#seed),
        (None, None) => {
            let last = SEEDS - 1;
            quote!(0u64..=#last)
        }
    };
    let call = call(&krate, signature);
    quote! {
        #(#attributes)*
        #[::core::prelude::v1::test]
        #visibility #fn_token #ident() {
            #inner
            #krate::sim::__private::test(
                ::core::concat!(::core::module_path!(), "::", #name),
                #builder #workers,
                #seeds,
                #call,
            )
        }
    }
}

/// The closure that calls the body.
fn call(krate: &syn::Path, signature: &Signature) -> TokenStream {
    let ident = &signature.ident;
    let of =
        |place: Option<Span>| Span::mixed_site().located_at(place.unwrap_or_else(Span::call_site));
    let output = match &signature.output {
        ReturnType::Default => None,
        ReturnType::Type(_, declared) => Some(declared.span()),
    };
    let input = match signature.inputs.first() {
        Some(FnArg::Typed(typed)) => Some(typed.ty.span()),
        _ => None,
    };
    let sim = Ident::new("__ws_sim", of(input));
    let body = quote_spanned!(of(output)=> #ident(#sim));
    let body = match signature.asyncness {
        Some(_) => quote_spanned!(of(output)=> #krate::sim::__private::block(#body)),
        None => body,
    };
    quote!(|#sim| #body)
}

#[cfg(test)]
mod tests;
