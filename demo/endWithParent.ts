/** Preloaded into a child process: stops it when its parent has ended, however that ended. */
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
// The channel to the parent alone does not keep the child running.
process.channel?.unref();
