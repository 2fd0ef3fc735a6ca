//! See `shared/command_line.rs`.

fn main() {
    on_turmoil::shared::main();
}
