/** Entry of the program; the commands are in `src/cli`. */
import { runCli } from './cli/program.ts';

// A reader that closes the pipe (`… | head`) is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

process.exitCode = await runCli(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  stdin: process.stdin,
  environment: process.env,
  signals: process,
});
