//! What the two attributes make of a function, token by token, and what their errors point at.
//!
//! Spans can be read here because the tests switch on the positions of `proc-macro2`. What the
//! compiler says to an expansion is for the programs under `tests/ui/`.

use super::*;

fn tokens(source: &str) -> TokenStream {
    source.parse().unwrap()
}

/// The expansion as text, in the notation of a token stream.
fn expanded(entry: Entry, args: &str, item: &str) -> String {
    expand(entry, tokens(args), tokens(item)).to_string()
}

/// Compares an expansion with `expected`, but not how the two set blanks.
#[track_caller]
fn assert_expands(entry: Entry, args: &str, item: &str, expected: &TokenStream) {
    let dense = |code: &str| code.replace(char::is_whitespace, "");
    let code = expanded(entry, args, item);
    assert_eq!(dense(&code), dense(&expected.to_string()), "{code}");
}

/// The faults of a function, each as the text that it points at and its message.
fn faults(entry: Entry, item: &str) -> Vec<(String, String)> {
    let mut fault = None;
    inspect(entry, &syn::parse2(tokens(item)).unwrap(), &mut fault);
    fault
        .into_iter()
        .flatten()
        .map(|error| {
            (
                error.span().source_text().unwrap_or_default(),
                error.to_string(),
            )
        })
        .collect()
}

/// The only fault of a function: what it points at.
fn fault_at(entry: Entry, item: &str) -> String {
    let found = faults(entry, item);
    assert_eq!(found.len(), 1, "{item}: {found:?}");
    assert!(found[0].1.contains(entry.name()), "{}", found[0].1);
    found[0].0.clone()
}

#[test]
fn main_reports_its_output() {
    let expected = quote! {
        #[doc = " Serves."]
        pub fn main() -> ::std::process::ExitCode {
            async fn main() -> Result<(), Box<dyn Error>> { serve().await?; Ok(()) }
            {
                use ::ws::__private::PickPinned as _;
                #[allow(unreachable_code)]
                async fn __ws_report() -> ::std::process::ExitCode {
                    ::std::process::Termination::report(main().await)
                }
                ::ws::__private::Probe(__ws_report())
                    .__ws_pick()
                    .run_process(::ws::__private::builder())
            }
        }
    };
    let item = "#[doc = \" Serves.\"] \
        pub async fn main() -> Result<(), Box<dyn Error>> { serve().await?; Ok(()) }";
    assert_expands(Entry::Main, "", item, &expected);
}

#[test]
fn arguments_reach_the_expansion() {
    let expected = quote! {
        fn main() -> ::std::process::ExitCode {
            async fn main() { #![allow(unused)] work().await }
            {
                use my::ws::__private::PickPinned as _;
                #[allow(unreachable_code)]
                async fn __ws_report() -> ::std::process::ExitCode {
                    ::std::process::Termination::report(main().await)
                }
                my::ws::__private::Probe(__ws_report())
                    .__ws_pick()
                    .run_process(my::ws::__private::builder().workers(4usize))
            }
        }
    };
    let item = "async fn main() { #![allow(unused)] work().await }";
    let args = "workers = 4, crate = my::ws";
    assert_expands(Entry::Main, args, item, &expected);
}

#[test]
fn another_name_keeps_its_type() {
    let expected = quote! {
        pub(crate) fn answer() -> u32 {
            async fn answer() -> u32 { 42 }
            {
                use ::ws::__private::PickPinned as _;
                ::ws::__private::Probe(answer()).__ws_pick().run(::ws::__private::builder())
            }
        }
    };
    let item = "pub(crate) async fn answer() -> u32 { 42 }";
    assert_expands(Entry::Main, "", item, &expected);
}

#[test]
fn a_test_without_output_returns_nothing() {
    let expected = quote! {
        #[should_panic(expected = "boo")]
        #[ignore = "slow"]
        #[::core::prelude::v1::test]
        fn panics() {
            async fn panics() { panic!("boo") }
            {
                use ::ws::__private::PickPinned as _;
                ::ws::__private::Probe(panics())
                    .__ws_pick()
                    .run(::ws::__private::test_builder().workers(1usize))
            }
        }
    };
    let item = "#[should_panic(expected = \"boo\")] #[ignore = \"slow\"] \
        async fn panics() { panic!(\"boo\") }";
    assert_expands(Entry::Test, "", item, &expected);
    assert!(expanded(Entry::Test, "", "async fn t() -> () {}").contains("fn t () -> () {"));
}

#[test]
fn a_test_with_output_reports_it() {
    let expected = quote! {
        #[::core::prelude::v1::test]
        fn reads() -> ::std::process::ExitCode {
            async fn reads() -> io::Result<()> { read().await }
            {
                use ::ws::__private::PickPinned as _;
                #[allow(unreachable_code)]
                async fn __ws_report() -> ::std::process::ExitCode {
                    ::std::process::Termination::report(reads().await)
                }
                ::ws::__private::Probe(__ws_report())
                    .__ws_pick()
                    .run_report(::ws::__private::test_builder().workers(8usize))
            }
        }
    };
    let item = "async fn reads() -> io::Result<()> { read().await }";
    assert_expands(Entry::Test, "workers = 8", item, &expected);
}

#[test]
fn a_paused_test_has_no_workers_but_may_have_a_seed() {
    for (args, builder) in [
        (
            "paused",
            quote!(::ws::__private::test_builder().clock(::ws::__private::Clock::Paused)),
        ),
        (
            "workers = 1, paused, seed = 7",
            quote!(
                ::ws::__private::test_builder()
                    .clock(::ws::__private::Clock::Paused)
                    .seed(7u64)
            ),
        ),
    ] {
        let expected = quote! {
            #[::core::prelude::v1::test]
            fn sleeps() {
                async fn sleeps() {}
                {
                    use ::ws::__private::PickPinned as _;
                    ::ws::__private::Probe(sleeps()).__ws_pick().run(#builder)
                }
            }
        };
        assert_expands(Entry::Test, args, "async fn sleeps() {}", &expected);
    }
}

#[test]
fn faults_point_at_what_has_to_go() {
    for entry in [Entry::Main, Entry::Test] {
        for (item, at) in [
            ("fn main() {}", "fn"),
            (
                "async fn main(count: u8, name: &str) {}",
                "count: u8, name: &str",
            ),
            ("async fn main(&self) {}", "&self"),
            (
                "async fn main(self: Box<Self>, count: u8) {}",
                "self: Box<Self>",
            ),
            ("async fn main<T: Default>() {}", "<T: Default>"),
            ("async fn main() where u8: Copy {}", "where u8: Copy"),
            ("async unsafe fn main() {}", "unsafe"),
            ("async extern \"C\" fn main() {}", "extern \"C\""),
            (
                "#[ws::main(workers = 2)] async fn main() {}",
                "#[ws::main(workers = 2)]",
            ),
        ] {
            assert_eq!(fault_at(entry, item), at, "{item}");
        }
    }
    let found = faults(Entry::Main, "const fn main() {}");
    assert_eq!(
        found.iter().map(|f| f.0.as_str()).collect::<Vec<_>>(),
        ["fn", "const"]
    );
}

#[test]
fn a_test_is_registered_once() {
    for path in [
        "test",
        "core::prelude::v1::test",
        "::core::prelude::v1::test",
        "other::test",
    ] {
        let item = format!("#[{path}] async fn t() {{}}");
        assert_eq!(fault_at(Entry::Test, &item), format!("#[{path}]"));
        let code = expanded(Entry::Test, "", &item);
        assert_eq!(code.matches(":: test]").count(), 1, "{code}");
    }
    // A `main` that is also a test is one entry, and its harness is std's.
    assert!(faults(Entry::Main, "#[test] async fn main() {}").is_empty());
    assert!(
        faults(
            Entry::Test,
            "#[cfg(test)] #[allow(dead_code)] async fn t() {}"
        )
        .is_empty()
    );
}

#[test]
fn all_faults_are_found_at_once() {
    let found = faults(
        Entry::Main,
        "#[main] unsafe fn main<T>(count: T) where T: Copy {}",
    );
    let at: Vec<_> = found.iter().map(|f| f.0.as_str()).collect();
    assert_eq!(
        at,
        [
            "#[main]",
            "fn",
            "unsafe",
            "<T>",
            "where T: Copy",
            "count: T"
        ]
    );
}

#[test]
fn a_missing_async_is_put_in() {
    let code = expanded(Entry::Main, "", "fn main() { body().await }");
    let good = expanded(Entry::Main, "", "async fn main() { body().await }");
    assert!(code.contains("compile_error"), "{code}");
    assert!(code.ends_with(&good), "{code}");
}

#[test]
fn a_wrong_argument_leaves_the_normal_expansion() {
    let item = "async fn main() { body().await }";
    let code = expanded(Entry::Main, "workers = 0", item);
    assert!(code.contains("compile_error"), "{code}");
    assert!(code.ends_with(&expanded(Entry::Main, "", item)), "{code}");
}

#[test]
fn what_cannot_be_called_keeps_its_body() {
    for (entry, outer, item) in [
        (
            Entry::Main,
            "fn main () -> :: std :: process :: ExitCode {",
            "async fn main(x: u8) { body(x).await }",
        ),
        (
            Entry::Main,
            "fn go (x : u8) {",
            "async fn go(x: u8) { body(x).await }",
        ),
        (
            Entry::Test,
            "fn go (x : u8) {",
            "async fn go(x: u8) { body(x).await }",
        ),
    ] {
        let code = expanded(entry, "", item);
        assert!(code.contains("compile_error"), "{code}");
        assert!(code.contains(outer), "{code}");
        assert!(code.contains(&tokens(item).to_string()), "{code}");
        assert!(!code.contains("__private"), "{code}");
        assert!(!code.contains(":: test]"), "{code}");
    }
    let method = "async fn go(&self) { self.body().await }";
    let code = expanded(Entry::Main, "", method);
    assert!(code.ends_with(&tokens(method).to_string()), "{code}");
}

#[test]
fn what_is_no_function_comes_back() {
    for item in [
        "struct Server { port: u16 }",
        "async fn declared();",
        "mod inner {}",
    ] {
        let code = expanded(Entry::Test, "", item);
        assert!(
            code.contains("goes on an `async fn` that has a body"),
            "{code}"
        );
        assert!(code.ends_with(&tokens(item).to_string()), "{code}");
    }
}

#[test]
fn a_half_typed_body_is_kept() {
    let code = expanded(
        Entry::Main,
        "",
        "async fn main() { let server = listener. }",
    );
    assert!(!code.contains("compile_error"), "{code}");
    assert!(code.contains("let server = listener . }"), "{code}");
}
