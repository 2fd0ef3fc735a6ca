//! Programs that call themselves: nearly nothing but joins, or of a shape that nobody knows before.

use super::Program;
use crate::cli::Params;
use crate::joins::ForkJoin;

/// Fibonacci's numbers, without a cut-off: nothing but joins.
#[derive(Debug)]
pub(in super::super) struct Fib;

impl Program for Fib {
    type Input = u64;
    type Scratch = ();

    fn input(params: Params) -> u64 {
        params.size(38, 30) as u64
    }

    fn scratch(_: &u64) {}

    fn run<J: ForkJoin>(context: &mut J::Context<'_>, n: &u64, (): &mut ()) -> u64 {
        fib::<J>(context, *n)
    }

    fn digest(result: u64, (): &()) -> u64 {
        result
    }
}

pub(in super::super) fn fib<J: ForkJoin>(context: &mut J::Context<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = J::join(
        context,
        move |context| fib::<J>(context, n - 1),
        move |context| fib::<J>(context, n - 2),
    );
    a + b
}

/// In how many ways queens can stand on a board, without a cut-off.
#[derive(Debug)]
pub(super) struct NQueens;

impl Program for NQueens {
    type Input = u32;
    type Scratch = ();

    fn input(params: Params) -> u32 {
        params.size(12, 11) as u32
    }

    fn scratch(_: &u32) {}

    fn run<J: ForkJoin>(context: &mut J::Context<'_>, size: &u32, (): &mut ()) -> u64 {
        let all = (1 << size) - 1;
        place::<J>(context, all, 0, 0, 0, all)
    }

    fn digest(result: u64, (): &()) -> u64 {
        result
    }
}

/// The ways with a queen on one of these `squares` of the next row. `columns` and the diagonals to
/// the `left` and `right` are under attack; all are bits of a row, `all` those of a whole one.
///
/// The bits are arguments by themselves: a structure of them goes by memory, written four bytes at
/// a time and read sixteen at a time, which has to wait for the writes. That is as much as a join.
fn place<J: ForkJoin>(
    context: &mut J::Context<'_>,
    all: u32,
    columns: u32,
    left: u32,
    right: u32,
    squares: u32,
) -> u64 {
    if squares == 0 {
        return u64::from(columns == all);
    }
    let square = squares & squares.wrapping_neg();
    let others = squares ^ square;
    let below = move |context: &mut J::Context<'_>| {
        let columns = columns | square;
        let (left, right) = ((left | square) << 1, (right | square) >> 1);
        let free = !(columns | left | right) & all;
        place::<J>(context, all, columns, left, right, free)
    };
    if others == 0 {
        return below(context);
    }
    let (here, there) = J::join(context, below, move |context| {
        place::<J>(context, all, columns, left, right, others)
    });
    here + there
}

/// The sum of a balanced tree of boxes.
#[derive(Debug)]
pub(super) struct TreeSum;

#[derive(Debug)]
pub(super) struct Node {
    value: u64,
    children: Option<Box<[Node; 2]>>,
}

impl Node {
    /// The boxes lie in the order of plain calls: a parent's first, then the left child's, as in a
    /// tree that is built from the top. A walk that goes right first meets them in no order.
    fn new(depth: usize, value: u64) -> Self {
        let mut root = Node::leaf(value);
        root.grow(depth);
        root
    }

    fn leaf(value: u64) -> Self {
        let children = None;
        Node { value, children }
    }

    fn grow(&mut self, depth: usize) {
        if depth <= 1 {
            return;
        }
        let child = |bit| Node::leaf(self.value * 2 + bit);
        let children = self.children.insert(Box::new([child(0), child(1)]));
        for child in &mut **children {
            child.grow(depth - 1);
        }
    }
}

impl Program for TreeSum {
    type Input = Node;
    type Scratch = ();

    fn input(params: Params) -> Node {
        Node::new(params.size(24, 20), 1)
    }

    fn scratch(_: &Node) {}

    fn run<J: ForkJoin>(context: &mut J::Context<'_>, root: &Node, (): &mut ()) -> u64 {
        sum::<J>(context, root)
    }

    fn digest(result: u64, (): &()) -> u64 {
        result
    }
}

fn sum<J: ForkJoin>(context: &mut J::Context<'_>, node: &Node) -> u64 {
    let Some(children) = &node.children else {
        return node.value;
    };
    let [left, right] = &**children;
    let (a, b) = J::join(
        context,
        move |context| sum::<J>(context, left),
        move |context| sum::<J>(context, right),
    );
    node.value.wrapping_add(a).wrapping_add(b)
}

/// Unbalanced tree search: the number of nodes of a tree that is found out while it is walked.
///
/// The tree T1 of Olivier and others, *UTS: An Unbalanced Tree Search Benchmark* (2006): up to a
/// depth of 10, the number of children is geometrically distributed with a mean of 4. A hash of two
/// multiplications (splitmix64) stands for SHA-1, so that the joins are not hidden behind it.
#[derive(Debug)]
pub(super) struct Uts;

impl Program for Uts {
    type Input = u32;
    type Scratch = ();

    fn input(params: Params) -> u32 {
        params.size(10, 9) as u32
    }

    fn scratch(_: &u32) {}

    fn run<J: ForkJoin>(context: &mut J::Context<'_>, depth: &u32, (): &mut ()) -> u64 {
        visit::<J>(context, 19, *depth)
    }

    fn digest(result: u64, (): &()) -> u64 {
        result
    }
}

fn hash(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn visit<J: ForkJoin>(context: &mut J::Context<'_>, node: u64, depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    // A geometric distribution with a mean of 4, from a uniform one above 0 and up to 1.
    let uniform = ((hash(node) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    let children = (uniform.ln() / (4.0_f64 / 5.0).ln()) as u64;
    1 + visit_some::<J>(context, node, 0, children, depth - 1)
}

/// The children `first..end` of a node, and what is below them.
fn visit_some<J: ForkJoin>(
    context: &mut J::Context<'_>,
    node: u64,
    first: u64,
    end: u64,
    depth: u32,
) -> u64 {
    if first == end {
        return 0;
    }
    if first + 1 == end {
        return visit::<J>(context, hash(node ^ (end << 32)), depth);
    }
    let middle = first.midpoint(end);
    let (a, b) = J::join(
        context,
        move |context| visit_some::<J>(context, node, first, middle, depth),
        move |context| visit_some::<J>(context, node, middle, end, depth),
    );
    a + b
}

/// skynet (<https://github.com/atemerev/skynet>): nodes of ten children each, until there are a
/// million leaves.
#[derive(Debug)]
pub(super) struct Skynet;

impl Program for Skynet {
    type Input = u64;
    type Scratch = ();

    fn input(_: Params) -> u64 {
        1_000_000
    }

    fn scratch(_: &u64) {}

    fn run<J: ForkJoin>(context: &mut J::Context<'_>, leaves: &u64, (): &mut ()) -> u64 {
        node::<J>(context, 0, *leaves)
    }

    fn digest(result: u64, (): &()) -> u64 {
        result
    }
}

fn node<J: ForkJoin>(context: &mut J::Context<'_>, first: u64, size: u64) -> u64 {
    if size == 1 {
        return first;
    }
    nodes::<J>(context, first, size / 10, 10)
}

/// So many nodes of that size.
fn nodes<J: ForkJoin>(context: &mut J::Context<'_>, first: u64, size: u64, count: u64) -> u64 {
    if count == 1 {
        return node::<J>(context, first, size);
    }
    let half = count / 2;
    let (a, b) = J::join(
        context,
        move |context| nodes::<J>(context, first, size, half),
        move |context| nodes::<J>(context, first + half * size, size, count - half),
    );
    a + b
}
