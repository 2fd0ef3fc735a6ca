//! Turns an `async fn` into the plain function that a process or a test harness calls.
//!
//! # What comes out
//!
//! `#[ws::main(workers = 4)] async fn main() -> Ret { body }` becomes
//!
//! ```text
//! fn main() -> ::std::process::ExitCode {
//!     async fn main() -> Ret { body }
//!     {
//!         use ::ws::__private::PickPinned as _;
//!         async fn __ws_report() -> ::std::process::ExitCode {
//!             ::std::process::Termination::report(main().await)
//!         }
//!         ::ws::__private::Probe(__ws_report())
//!             .__ws_pick()
//!             .run_process(::ws::__private::builder().workers(4usize))
//!     }
//! }
//! ```
//!
//! | part | why |
//! | --- | --- |
//! | the inner `async fn` | it is what the user wrote, token for token: its name, its errors, its place in a backtrace. `?`, `return` and borrowed locals work because it is a function. And only another item's future can be asked whether it is `Send`, see below |
//! | `__ws_report` | awaits the body and turns its output into an `ExitCode` inside the task, as std does for `main`. So what the root gives out is `Send`, even where the output is not (`Result<_, Box<dyn Error>>`) |
//! | `Probe(..).__ws_pick()` | a `Send` root becomes an ordinary task that any worker may steal, every other one is pinned to this thread; `__private` in the runtime's crate says how |
//! | `run_report` | as `run`, for a test: its output says how it went |
//! | `run_process` | builds the runtime and runs the root in it; says on stderr why there is no runtime, and fails the process |
//!
//! The three kinds of function differ in the ending only:
//!
//! | function | returns | without a runtime |
//! | --- | --- | --- |
//! | `#[ws::main]` on `main` | `ExitCode` | message and `ExitCode::FAILURE` |
//! | `#[ws::main]` on any other name | what the user declared | panics |
//! | `#[ws::test]` | nothing if nothing is declared (`#[should_panic]` insists on it), else `ExitCode` | panics |
//!
//! `#[ws::sim]` stands in `simulation`.
//!
//! A test that returns `Err` so prints and fails word for word as under std's own `#[test]`, which
//! calls `report` too and looks at the code alone.
//!
//! # Why the body is a function of its own
//!
//! The compiler learns what a future holds across its awaits only after it has checked the function
//! around it. Asked for `Send` inside that same function, method resolution takes the question as
//! open and goes on as if the answer were yes: a root with an `Rc` would be an error and not be
//! pinned. An `async fn` beside the call is checked first, and the answer is the true one.
//!
//! # Attributes
//!
//! Those above ours have been applied already. Those below it stay on the outer function, in their
//! order: `#[should_panic]`, `#[ignore]`, `#[cfg]` and docs belong there, and lint levels reach the
//! inner function from there. An attribute macro that wants to see an `async fn` has to stand
//! above.
//!
//! # Refusals
//!
//! [`inspect`] finds all faults at once, and what is emitted beside them is chosen so that the
//! faults are the only errors. Where the function can still be called (`async` is missing, an
//! attribute is doubled, an argument of ours is wrong) the normal expansion follows, as if
//! repaired. Where it can not (parameters, generics, `unsafe`), the inner function keeps the whole
//! signature and body, and the outer one does not call it. What is no function at all is given back
//! as it came. In each case the body is compiled in full, so an editor goes on completing in it.
//!
//! The body is never parsed here: it travels as tokens, so a half-typed one is no fault of ours,
//! and every span in it is the user's.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Attribute, ReturnType, Signature, Token, Type, Visibility, token};

use crate::args::{Args, combine, default_crate};
use crate::simulation;

/// Which of the attributes is expanded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Main,
    Test,
    Sim,
}

impl Entry {
    /// The attribute as messages name it.
    fn name(self) -> &'static str {
        match self {
            Self::Main => "#[ws::main]",
            Self::Test => "#[ws::test]",
            Self::Sim => "#[ws::sim]",
        }
    }

    /// What it goes on.
    fn wanted(self) -> &'static str {
        match self {
            Self::Main | Self::Test => "an `async fn`",
            Self::Sim => "a function",
        }
    }

    /// How many workers there are when the user does not say.
    ///
    /// A test has one: tests are many and small, and the harness runs them side by side already.
    /// `main` has as many as the runtime chooses.
    fn default_workers(self) -> Option<usize> {
        (self == Self::Test).then_some(1)
    }

    /// Whether `attribute` makes an entry of the function already.
    ///
    /// Only the last segment counts: `#[test]`, `#[core::prelude::v1::test]` and the test
    /// attributes of other runtimes would each register the test, or start a runtime, a second
    /// time.
    fn is_doubled_by(self, attribute: &Attribute) -> bool {
        attribute
            .path()
            .segments
            .last()
            .is_some_and(|last| match self {
                Self::Main => last.ident == "main",
                Self::Test | Self::Sim => ["main", "test", "sim"]
                    .iter()
                    .any(|name| last.ident == name),
            })
    }
}

/// What becomes of the body's output.
enum Ending {
    /// `fn main() -> ExitCode`, which also tells that there is no runtime.
    Process,
    /// `-> ExitCode` for the test harness.
    TestReport,
    /// The function returns what the body does.
    Plain,
}

impl Ending {
    fn of(entry: Entry, signature: &Signature) -> Self {
        match entry {
            Entry::Main if signature.ident == "main" => Self::Process,
            Entry::Test if !returns_unit(&signature.output) => Self::TestReport,
            Entry::Main | Entry::Test | Entry::Sim => Self::Plain,
        }
    }
}

/// A function; its body is kept as it is.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    brace: token::Brace,
    body: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let content;
        Ok(Self {
            attributes: input.call(Attribute::parse_outer)?,
            visibility: input.parse()?,
            signature: input.parse()?,
            brace: syn::braced!(content in input),
            body: content.parse()?,
        })
    }
}

/// Expands the attribute `entry` with its `args` on `item`.
pub(crate) fn expand(entry: Entry, args: TokenStream, item: TokenStream) -> TokenStream {
    let (args, mut fault) = Args::parse(entry, args);
    let mut function = match syn::parse2::<Function>(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let message = format!(
                "`{}` goes on {} that has a body",
                entry.name(),
                entry.wanted()
            );
            combine(&mut fault, syn::Error::new(error.span(), message));
            return with_errors(fault, item);
        }
    };
    let callable = inspect(entry, &function, &mut fault);
    function
        .attributes
        .retain(|attribute| !entry.is_doubled_by(attribute));
    let expansion = match entry {
        _ if !callable => emit_uncalled(entry, &function),
        Entry::Main | Entry::Test => emit(entry, &args, &function),
        Entry::Sim => simulation::emit(&args, &function),
    };
    with_errors(fault, expansion)
}

/// Puts the errors before the code.
fn with_errors(fault: Option<syn::Error>, code: TokenStream) -> TokenStream {
    let errors = fault.map(syn::Error::into_compile_error);
    quote!(#errors #code)
}

/// Collects what is wrong with the function, and says whether it can be called nevertheless.
fn inspect(entry: Entry, function: &Function, fault: &mut Option<syn::Error>) -> bool {
    let name = entry.name();
    let signature = &function.signature;

    for attribute in function
        .attributes
        .iter()
        .filter(|a| entry.is_doubled_by(a))
    {
        let written = attribute
            .path()
            .to_token_stream()
            .to_string()
            .replace(' ', "");
        let message = format!("`#[{written}]` beside `{name}`: one of the two has to go");
        combine(fault, syn::Error::new_spanned(attribute, message));
    }
    if signature.asyncness.is_none() && entry != Entry::Sim {
        let message = format!("`{name}` goes on an `async fn`: add `async` here");
        combine(fault, syn::Error::new(signature.fn_token.span, message));
    }

    let mut callable = true;
    let mut refuse = |tokens: &dyn ToTokens, reason: &str| {
        let message = format!("a function under `{name}` {reason}");
        combine(fault, syn::Error::new_spanned(tokens, message));
        callable = false;
    };
    if let Some(constness) = &signature.constness {
        refuse(constness, "cannot be `const`: it starts threads");
    }
    if let syn::Safety::Unsafe(token) = &signature.safety {
        refuse(
            token,
            "cannot be `unsafe`: its caller has no contract to keep",
        );
    }
    if let Some(abi) = &signature.abi {
        refuse(abi, "cannot be `extern`: it is called from Rust");
    }
    if signature.generics.lt_token.is_some() {
        refuse(
            &signature.generics,
            "cannot be generic: its caller chooses nothing",
        );
    }
    if let Some(bounds) = &signature.generics.where_clause {
        refuse(bounds, "cannot have a `where` clause: it is not generic");
    }
    if let Some(receiver) = signature.receiver() {
        refuse(
            receiver,
            "cannot be a method: there is no value to call it on",
        );
    } else if entry == Entry::Sim {
        if let Some(place) = simulation::wrong_inputs(signature) {
            refuse(&place, "takes one argument, as in `sim: ws::sim::Sim`");
        }
    } else if !signature.inputs.is_empty() || signature.variadic.is_some() {
        let mut inputs = signature.inputs.to_token_stream();
        signature.variadic.to_tokens(&mut inputs);
        let reason = if entry == Entry::Main {
            "takes no arguments: `std::env::args` has those of the process"
        } else {
            "takes no arguments: the test harness has none to give"
        };
        refuse(&inputs, reason);
    }
    callable
}

/// Emits the function that starts a runtime and runs the body in it.
fn emit(entry: Entry, args: &Args, function: &Function) -> TokenStream {
    let Function {
        attributes,
        visibility,
        signature,
        ..
    } = function;
    let Signature {
        fn_token, ident, ..
    } = signature;
    let inner = inner_function(entry, function);
    let krate = args.krate.clone().unwrap_or_else(default_crate);
    let private = quote!(#krate::__private);
    let builder = builder(entry, args, &private);

    let test = (entry == Entry::Test).then(|| quote!(#[::core::prelude::v1::test]));
    // No local variable stands here, so no name of the user's can meet one.
    let ending = Ending::of(entry, signature);
    let (output, reporter, root) = match ending {
        Ending::Process | Ending::TestReport => (
            exit_code(),
            Some(reporter(signature)),
            quote!(__ws_report()),
        ),
        Ending::Plain => (signature.output.to_token_stream(), None, quote!(#ident())),
    };
    let run = match ending {
        Ending::Process => quote!(run_process),
        Ending::TestReport => quote!(run_report),
        Ending::Plain => quote!(run),
    };
    quote! {
        #(#attributes)*
        #test
        #visibility #fn_token #ident() #output {
            #inner
            {
                use #private::PickPinned as _;
                #reporter
                #private::Probe(#root).__ws_pick().#run(#builder)
            }
        }
    }
}

/// Emits a function that cannot be called from an entry: errors stand beside it already.
///
/// `main` gets the signature that the compiler expects of it, so that it does not complain as well;
/// any other function keeps its own, for its callers.
fn emit_uncalled(entry: Entry, function: &Function) -> TokenStream {
    let Function {
        attributes,
        visibility,
        signature,
        brace,
        body,
    } = function;
    if signature.receiver().is_some() {
        // No function inside can have a receiver, so this one stays what it is.
        let block = block(*brace, body);
        return quote!(#(#attributes)* #visibility #signature #block);
    }
    let inner = inner_function(entry, function);
    let outer = match Ending::of(entry, signature) {
        Ending::Process => {
            let (
                Signature {
                    fn_token, ident, ..
                },
                output,
            ) = (signature, exit_code());
            quote!(#fn_token #ident() #output)
        }
        Ending::TestReport | Ending::Plain => Signature {
            asyncness: None,
            constness: None,
            ..signature.clone()
        }
        .into_token_stream(),
    };
    quote! {
        #(#attributes)*
        #[allow(dead_code, unused_variables)]
        #visibility #outer {
            #inner
            ::core::unreachable!()
        }
    }
}

/// The user's function without attributes and visibility.
pub(crate) fn inner_function(entry: Entry, function: &Function) -> TokenStream {
    let mut signature = function.signature.clone();
    if entry != Entry::Sim {
        let missing = Token![async](signature.fn_token.span);
        signature.asyncness.get_or_insert(missing);
    }
    signature.constness = None;
    let block = block(function.brace, &function.body);
    quote!(#signature #block)
}

/// The body in the user's own braces, at which errors about a missing value point.
fn block(brace: token::Brace, body: &TokenStream) -> TokenStream {
    let mut block = TokenStream::new();
    brace.surround(&mut block, |inside| body.to_tokens(inside));
    block
}

/// A new `Builder` with the knobs that are given.
fn builder(entry: Entry, args: &Args, private: &TokenStream) -> TokenStream {
    let new = if entry == Entry::Main {
        quote!(#private::builder())
    } else {
        quote!(#private::test_builder())
    };
    if args.paused.is_some() {
        let seed = args.seed.as_ref().map(|seed| quote!(.seed(#seed)));
        return quote!(#new.clock(#private::Clock::Paused) #seed);
    }
    let workers = match (&args.workers, entry.default_workers()) {
        (Some(literal), _) => Some(literal.to_token_stream()),
        (None, default) => default.map(|count| count.to_token_stream()),
    };
    let workers = workers.map(|count| quote!(.workers(#count)));
    quote!(#new #workers)
}

/// A function that reports the body's output, placed at the declared type: that is what has to
/// change where it is no `Termination`.
///
/// Its name is out of the body's sight, since it stands in a block of its own behind the body.
fn reporter(signature: &Signature) -> TokenStream {
    let place = match &signature.output {
        ReturnType::Default => Span::call_site(),
        ReturnType::Type(_, declared) => declared.span(),
    };
    let mut body = signature.ident.clone();
    body.set_span(body.span().located_at(place));
    let output = exit_code();
    quote_spanned! {Span::mixed_site().located_at(place)=>
        #[allow(unreachable_code)] // where the body's type is `!`
        async fn __ws_report() #output {
            ::std::process::Termination::report(#body().await)
        }
    }
}

/// What the emitted functions return to the process or to the test harness.
fn exit_code() -> TokenStream {
    quote!(-> ::std::process::ExitCode)
}

/// Whether nothing is returned, by the look of it: as `#[should_panic]` looks at it.
fn returns_unit(output: &ReturnType) -> bool {
    match output {
        ReturnType::Default => true,
        ReturnType::Type(_, declared) => {
            matches!(&**declared, Type::Tuple(tuple) if tuple.elems.is_empty())
        }
    }
}

#[cfg(test)]
mod tests;
