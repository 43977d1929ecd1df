import { fork } from 'node:child_process';
import { once } from 'node:events';

/** A client in a process of its own, which answers one message at a time. */
export interface ChildClient<Question, Result> {
  /** @throws where the process has ended */
  ask(question: Question): Promise<Result>;
  stop(): void;
}

/** Starts one. @param file its program, which answers each message with one */
export function startChildClient<Question extends object, Result>(file: string): ChildClient<Question, Result> {
  const child = fork(file);
  const ended = once(child, 'exit').then(() => {
    throw new Error('the client ended');
  });
  // It ends when it is stopped, too.
  ended.catch(() => undefined);
  return {
    async ask(question) {
      const result = new Promise<[Result]>((resolve) =>
        child.once('message', (response) => resolve([response as Result])),
      );
      child.send(question);
      const [response] = (await Promise.race([result, ended])) as [Result];
      return response;
    },
    stop: () => child.kill(),
  };
}
