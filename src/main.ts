/** Entry of the program; the commands are in `src/cli`. */
import { basename } from 'node:path';
import { runCli } from './cli/program.ts';

// A reader that closes the pipe (`… | head`) is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

const [, path = '', ...args] = process.argv;
const { stdout, stderr, stdin, env: environment } = process;
const io = { stdout, stderr, stdin, environment, signals: process };
process.exitCode = await runCli(args, io, basename(path, '.js'));
