//! What `#[ws::sim]` makes of a function, token by token, and what its errors point at.

use super::*;
use crate::entry::expand;

fn expanded(args: &str, item: &str) -> String {
    let code = expand(Entry::Sim, args.parse().unwrap(), item.parse().unwrap());
    code.to_string().replace(char::is_whitespace, "")
}

#[track_caller]
fn assert_expands(args: &str, item: &str, expected: &TokenStream) {
    let expected = expected.to_string().replace(char::is_whitespace, "");
    assert_eq!(expanded(args, item), expected);
}

#[test]
fn an_async_function_is_called_with_each_seed() {
    let expected = quote! {
        #[ignore]
        #[::core::prelude::v1::test]
        fn finds() {
            async fn finds(sim: Sim) -> Result<(), Failure> { sim.run().await; Ok(()) }
            ::ws::sim::__private::test(
                ::core::concat!(::core::module_path!(), "::", "finds"),
                ::ws::sim::Sim::builder(),
                0u64..=999u64,
                |__ws_sim| ::ws::sim::__private::block(finds(__ws_sim)),
            )
        }
    };
    let item = "#[ignore] \
        async fn finds(sim: Sim) -> Result<(), Failure> { sim.run().await; Ok(()) }";
    assert_expands("seeds = 1000", item, &expected);
}

#[test]
fn a_plain_function_with_all_arguments() {
    let expected = quote! {
        #[::core::prelude::v1::test]
        fn r#match() {
            fn r#match(sim: Sim) { }
            my::ws::sim::__private::test(
                ::core::concat!(::core::module_path!(), "::", "match"),
                limits().steps(7) .workers(2usize),
                7u64..=7u64,
                |__ws_sim| r#match(__ws_sim),
            )
        }
    };
    let args = "seed = 7, workers = 2, builder = limits().steps(7), crate = my::ws";
    assert_expands(args, "fn r#match(sim: Sim) {}", &expected);
}

#[test]
fn it_takes_the_simulation_by_value_and_nothing_else() {
    for item in [
        "async fn a() {}",
        "async fn a(sim: &Sim) {}",
        "async fn a(sim: Sim, disk: Disk) {}",
    ] {
        let code = expanded("", item);
        assert!(
            code.contains("afunctionunder`#[ws::sim]`takesoneargument"),
            "{code}"
        );
        // The body stays, and no test is registered.
        assert!(
            code.contains("::core::unreachable!()") && !code.contains("v1::test"),
            "{code}"
        );
    }
    let code = expanded("", "async fn a(&self) {}");
    assert!(code.contains("cannotbeamethod"), "{code}");
}

#[test]
fn a_test_is_registered_once() {
    for other in ["#[test]", "#[ws::test]", "#[ws::sim(seeds = 7)]"] {
        let code = expanded("", &format!("{other} fn a(sim: Sim) {{}}"));
        assert!(code.contains("oneofthetwohastogo"), "{code}");
        assert_eq!(
            code.matches("test]").count(),
            1 + code.matches("test]`").count(),
            "{code}"
        );
    }
}

#[test]
fn a_test_that_does_not_say_has_a_hundred_seeds() {
    let code = expanded("", "pub fn a(sim: Sim) {}");
    assert!(code.contains("pubfna(){fna(sim:Sim){}"), "{code}");
    assert!(code.contains("Sim::builder(),0u64..=99u64,|"), "{code}");
}
