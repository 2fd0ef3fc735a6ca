//! Nothing: the proofs are the tests beside this file.
