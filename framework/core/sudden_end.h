// What is said where the program ends without coming back to main.
#pragma once

namespace longspan {

// For main, first of all. From now on one sentence on standard error tells such an end, written
// without taking memory:
// - an exception that cannot be passed on, as one out of a destructor that finds no memory: exit
//   code 1;
// - a library that ends the process with code -1, as HDF5 does without memory: exit code 1;
// - SIGSEGV and SIGBUS, as of a library that does not see that it got no memory, or of the main
//   thread's stack that is full. The signal then ends the process as it would have. Who handles it
//   already, as a sanitizer does, goes on to.
void speak_at_sudden_end();

}  // namespace longspan
