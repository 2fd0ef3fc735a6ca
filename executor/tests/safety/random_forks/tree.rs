//! Trees of joins and scopes: made up, run, and looked at afterwards.

use std::{
    any::Any,
    cell::Cell,
    hint::black_box,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Waker,
    thread,
};

use ws_executor::{Scope, block_in_place, join, scope, spawn, task};

use super::{
    Expected, Outcome, Shared, Sure,
    common::Random,
    program::{Counted, Program},
};

/// What a panic that was caught counts as.
pub(crate) const CAUGHT: usize = 1_000;

/// A closure, and those that it forks.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    id: usize,
    /// Its descendants have the ids from its own on up to this one.
    end: usize,
    kind: Kind,
    /// When it has forked: a scope panics in its closure, and all else after its branches have
    /// ended.
    panics: bool,
}

#[derive(Debug, Clone)]
enum Kind {
    Leaf(Leaf),
    Join(Box<[Node; 2]>),
    Scope(Vec<Node>),
    /// A branch of a scope that spawns more; or forks, and spawns half of them from each side.
    Spawns(Vec<Node>, bool),
    Caught(Box<Node>),
}

#[derive(Debug, Clone)]
enum Leaf {
    Computes(usize),
    /// Lets another thread have the core.
    GivesWay,
    Blocks,
    /// Runs a future of its own, above all that is below.
    BlocksOn,
    /// Wakes the task whose poll this is.
    Wakes,
    Spawns(Program),
}

/// To which side a tree leans.
#[derive(Clone, Copy)]
enum Lean {
    First,
    Second,
    Neither,
}

impl Node {
    /// A tree of `size` closures at most. `depth` is for what its leaves spawn.
    pub(crate) fn random(random: &mut Random, size: usize, depth: usize) -> Self {
        let lean = [Lean::First, Lean::Second, Lean::Neither, Lean::Neither][random.below(4)];
        let tree = Self::subtree(random, size, depth, lean);
        if random.below(4) == 0 {
            return tree;
        }
        Self::new(Kind::Caught(Box::new(tree)), false)
    }

    fn new(kind: Kind, panics: bool) -> Self {
        Self {
            id: 0,
            end: 0,
            kind,
            panics,
        }
    }

    fn subtree(random: &mut Random, size: usize, depth: usize, lean: Lean) -> Self {
        let panics = random.below(30) == 0;
        let kind = match random.below(12) {
            _ if size < 3 => Kind::Leaf(Leaf::random(random, depth)),
            0 => Kind::Leaf(Leaf::random(random, depth)),
            1 => Kind::Caught(Box::new(Self::subtree(random, size - 1, depth, lean))),
            2 | 3 => Kind::Scope(Self::branches(random, size - 1, depth, lean)),
            _ => {
                let first = match lean {
                    Lean::First => size - 2,
                    Lean::Second => 1,
                    Lean::Neither => 1 + random.below(size - 2),
                };
                let sizes = [first, size - 1 - first];
                Kind::Join(Box::new(
                    sizes.map(|size| Self::subtree(random, size, depth, lean)),
                ))
            }
        };
        Self::new(kind, panics)
    }

    /// Those of a scope.
    fn branches(random: &mut Random, mut left: usize, depth: usize, lean: Lean) -> Vec<Self> {
        let mut branches = Vec::new();
        while left > 0 {
            let size = 1 + random.below(left);
            left -= size;
            branches.push(if size > 1 && random.below(4) == 0 {
                let spawned = Self::branches(random, size - 1, depth, lean);
                let kind = Kind::Spawns(spawned, random.below(2) == 0);
                Self::new(kind, random.below(30) == 0)
            } else {
                Self::subtree(random, size, depth, lean)
            });
        }
        branches
    }

    fn children(&mut self) -> &mut [Self] {
        match &mut self.kind {
            Kind::Leaf(_) => &mut [],
            Kind::Join(branches) => &mut branches[..],
            Kind::Scope(branches) | Kind::Spawns(branches, _) => branches,
            Kind::Caught(inner) => std::slice::from_mut(inner),
        }
    }

    /// Gives ids to it and to all below, from `next` on.
    pub(crate) fn number(&mut self, next: &mut usize) {
        self.id = *next;
        *next += 1;
        if let Kind::Leaf(Leaf::Spawns(program)) = &mut self.kind {
            program.number(next);
        }
        for child in self.children() {
            child.number(next);
        }
        self.end = *next;
    }

    /// What it comes to, if nobody cancels it.
    pub(crate) fn outcome(&self) -> Outcome {
        let own = if self.panics {
            Outcome::panic(self.id)
        } else {
            Outcome::Value(self.id)
        };
        match &self.kind {
            Kind::Leaf(_) => own,
            Kind::Join(branches) => {
                let [first, second] = branches.each_ref().map(Self::outcome);
                first.then(second).then(own)
            }
            // The panic of the closure comes before those of the branches.
            Kind::Scope(branches) => own.then(Outcome::of_all(branches.iter().map(Self::outcome))),
            Kind::Spawns(branches, _) => {
                let branches = branches.iter().map(Self::outcome);
                Outcome::of_all(branches.chain([own]))
            }
            Kind::Caught(inner) => match inner.outcome() {
                Outcome::Panics(_) => Outcome::Value(CAUGHT).then(own),
                value => value.then(own),
            },
        }
    }

    /// Compares what it did, and all below it, with what it should have done.
    pub(crate) fn check(&self, shared: &Shared, sure: Sure) {
        shared.check(self.id, sure, true);
        match &self.kind {
            Kind::Leaf(Leaf::Spawns(program)) => program.check(shared, sure),
            Kind::Leaf(_) => {}
            Kind::Join(branches) => {
                let [first, second] = &**branches;
                first.check(shared, sure);
                // It need not begin if the first one panics.
                let panics = matches!(first.outcome(), Outcome::Panics(_));
                second.check(shared, if panics { sure.less() } else { sure });
            }
            Kind::Scope(branches) | Kind::Spawns(branches, _) => {
                branches
                    .iter()
                    .for_each(|branch| branch.check(shared, sure));
            }
            Kind::Caught(inner) => inner.check(shared, sure),
        }
    }
}

impl Leaf {
    fn random(random: &mut Random, depth: usize) -> Self {
        match random.below(16) {
            0 => Self::Blocks,
            1 => Self::BlocksOn,
            2 => Self::Wakes,
            3 if depth > 0 => Self::Spawns(Program::random(random, depth - 1)),
            4..8 => Self::GivesWay,
            _ => Self::Computes(1 << random.below(10)),
        }
    }

    fn run(&self, run: Run<'_>) {
        match self {
            Self::Computes(rounds) => (0..*rounds).for_each(|round| _ = black_box(round)),
            Self::GivesWay => thread::yield_now(),
            Self::Blocks => block_in_place(thread::yield_now),
            Self::BlocksOn => run.shared.handle.block_on(task::yield_now()),
            Self::Wakes => run.waker.wake_by_ref(),
            Self::Spawns(program) => {
                let handle = spawn(Counted::new(program, run.shared));
                run.shared.leave(program, handle);
            }
        }
    }
}

/// What all closures of a tree have.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) waker: &'a Waker,
    /// It is a computation: the task that awaits it may unwind it.
    pub(crate) may_be_cancelled: bool,
}

impl Run<'_> {
    /// Runs the whole tree here and now.
    pub(crate) fn root(self, root: &Node) -> thread::Result<usize> {
        // Nobody borrows it, but for the root.
        let ground = Env::new(root.id, self.shared);
        let token = Token::new(root, &ground, self.shared);
        let waits = self.may_be_cancelled;
        catch_unwind(AssertUnwindSafe(|| {
            visit(token, root, &ground, self, waits)
        }))
    }
}

/// What is on a thread's stack.
#[derive(Debug, Clone, Copy)]
struct Stack {
    /// The ids that may begin: those below the newest closure.
    may_begin: (usize, usize),
    /// Something waits there for a branch. The second closure of a join is a call like any other
    /// where the thread of that join runs it: nothing waits then.
    waits: bool,
}

const EMPTY: Stack = Stack {
    may_begin: (0, usize::MAX),
    waits: false,
};

thread_local! {
    static STACK: Cell<Stack> = const { Cell::new(EMPTY) };
}

/// A poll of a task, which may be above others in a `block_on` where nothing waits for a branch.
pub(crate) fn poll_above<R>(id: usize, shared: &Shared, poll: impl FnOnce() -> R) -> R {
    struct Back(Stack);
    impl Drop for Back {
        fn drop(&mut self) {
            STACK.set(self.0);
        }
    }
    let back = Back(STACK.replace(EMPTY));
    if back.0.waits {
        shared.fail(|| format!("J2: task {id} is polled above {:?}", back.0));
    }
    poll()
}

/// What a closure owns, and has once.
struct Token<'a> {
    id: usize,
    /// Whose frame it borrows from.
    lender: usize,
    shared: &'a Shared,
}

impl<'a> Token<'a> {
    fn new(node: &Node, ground: &Env<'_>, shared: &'a Shared) -> Self {
        shared.records[node.id].made.fetch_add(1, SeqCst);
        Self {
            id: node.id,
            lender: ground.id.load(SeqCst),
            shared,
        }
    }

    /// The closure was called. `waits` if something below waits for it, or for another.
    fn begin<'b>(&'b self, node: &Node, ground: &'b Env<'a>, waits: bool) -> Begun<'b> {
        ground.inside.fetch_add(1, SeqCst);
        self.look(ground);
        self.shared.records[self.id].begun.fetch_add(1, SeqCst);
        let before = STACK.get();
        STACK.set(Stack {
            may_begin: (node.id, node.end),
            waits: before.waits || waits,
        });
        let (from, to) = before.may_begin;
        if !(from..to).contains(&node.id) {
            let id = node.id;
            self.shared
                .fail(|| format!("J2: {id} is run above {before:?}"));
        }
        Begun {
            token: self,
            ground,
            before,
        }
    }

    /// Whether what it borrows is there.
    fn look(&self, ground: &Env<'_>) {
        let (id, lent) = (self.id, ground.id.load(SeqCst));
        if lent != self.lender {
            self.shared
                .fail(|| format!("J5: {id} borrows of {}, where {lent} is", self.lender));
        }
    }
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        self.shared.records[self.id].dropped.fetch_add(1, SeqCst);
    }
}

/// A call of a closure.
struct Begun<'a> {
    token: &'a Token<'a>,
    ground: &'a Env<'a>,
    before: Stack,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        STACK.set(self.before);
        self.token.look(self.ground);
        self.token.shared.records[self.token.id]
            .ended
            .fetch_add(1, SeqCst);
        self.ground.inside.fetch_sub(1, SeqCst);
    }
}

/// A place on the stack of a closure which its branches borrow.
struct Env<'a> {
    /// Whose frame it is.
    id: AtomicUsize,
    /// Branches that have begun and not ended.
    inside: AtomicUsize,
    shared: &'a Shared,
}

/// Its frame is left.
const GONE: usize = usize::MAX;

impl<'a> Env<'a> {
    fn new(id: usize, shared: &'a Shared) -> Self {
        Self {
            id: AtomicUsize::new(id),
            inside: AtomicUsize::new(0),
            shared,
        }
    }
}

impl Drop for Env<'_> {
    fn drop(&mut self) {
        let id = self.id.swap(GONE, SeqCst);
        let inside = self.inside.load(SeqCst);
        if inside > 0 {
            self.shared
                .fail(|| format!("J5: {id} is left before {inside} of its branches"));
        }
    }
}

/// What a closure of a tree does.
fn visit(token: Token<'_>, node: &Node, below: &Env<'_>, run: Run<'_>, waits: bool) -> usize {
    let _begun = token.begin(node, below, waits);
    body(node, run)
}

fn body(node: &Node, run: Run<'_>) -> usize {
    let ground = Env::new(node.id, run.shared);
    let token = |node: &Node| Token::new(node, &ground, run.shared);
    let sum = match &node.kind {
        Kind::Leaf(leaf) => {
            leaf.run(run);
            0
        }
        Kind::Join(branches) => {
            let [(first, one), (second, two)] = branches.each_ref().map(|it| (it, token(it)));
            let (ground, here) = (&ground, thread::current().id());
            let (first, second) = join(
                move || visit(one, first, ground, run, true),
                move || {
                    let stolen = thread::current().id() != here;
                    visit(two, second, ground, run, stolen)
                },
            );
            first + second
        }
        Kind::Scope(branches) => {
            let sum = AtomicUsize::new(0);
            scope(|scope| {
                for branch in branches {
                    spawn_branch(scope, branch, &ground, &sum, run);
                }
                if node.panics {
                    throw(node.id);
                }
            });
            sum.into_inner()
        }
        Kind::Spawns(..) => unreachable!("it is a branch of a scope"),
        Kind::Caught(inner) => {
            let token = token(inner);
            catch_unwind(AssertUnwindSafe(|| {
                visit(token, inner, &ground, run, false)
            }))
            .unwrap_or_else(|payload| caught(inner, payload, run))
        }
    };
    if node.panics {
        throw(node.id);
    }
    node.id + sum
}

fn spawn_branch<'scope>(
    scope: &Scope<'scope>,
    node: &'scope Node,
    ground: &'scope Env<'_>,
    sum: &'scope AtomicUsize,
    run: Run<'scope>,
) {
    let token = Token::new(node, ground, run.shared);
    scope.spawn(move |scope| {
        let _begun = token.begin(node, ground, true);
        let value = match &node.kind {
            Kind::Spawns(branches, from_a_join) => {
                let spawn = |branches: &'scope [Node]| {
                    for branch in branches {
                        spawn_branch(scope, branch, ground, sum, run);
                    }
                };
                if *from_a_join {
                    let (first, second) = branches.split_at(branches.len() / 2);
                    join(|| spawn(first), || spawn(second));
                } else {
                    spawn(branches);
                }
                if node.panics {
                    throw(node.id);
                }
                node.id
            }
            _ => body(node, run),
        };
        sum.fetch_add(value, SeqCst);
    });
}

/// Panics, without a word.
pub(crate) fn throw(id: usize) -> ! {
    resume_unwind(Box::new(Expected(id)))
}

/// A panic came out of a closure: it is one that is to be, or the closure was cancelled.
fn caught(node: &Node, payload: Box<dyn Any + Send>, run: Run<'_>) -> usize {
    if !run.may_be_cancelled || payload.is::<Expected>() {
        run.shared.expect_payload(payload, &node.outcome());
    }
    CAUGHT
}
