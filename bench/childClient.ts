import { fork } from 'node:child_process';
import { once } from 'node:events';

/** A client in a process of its own, which answers one message at a time. */
export interface ChildClient<Question, Answer> {
  /** @throws where the process has ended */
  ask(question: Question): Promise<Answer>;
  stop(): void;
}

/** Starts one. @param file its program, which answers each message with one */
export function startChildClient<Question extends object, Answer>(file: string): ChildClient<Question, Answer> {
  const child = fork(file);
  const ended = once(child, 'exit').then(() => {
    throw new Error('the client ended');
  });
  // It ends when it is stopped, too.
  ended.catch(() => undefined);
  return {
    async ask(question) {
      const answered = new Promise<[Answer]>((resolve) =>
        child.once('message', (response) => resolve([response as Answer])),
      );
      child.send(question);
      const [response] = (await Promise.race([answered, ended])) as [Answer];
      return response;
    },
    stop: () => child.kill(),
  };
}
