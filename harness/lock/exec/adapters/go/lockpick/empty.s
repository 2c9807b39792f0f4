// A function without a body, as nanotime, needs a file in assembly beside it.
