/** Entry of the program; the commands are in `src/cli`. */
export {};
