import { ChangeCount } from '../../model/changeCount.ts';

/** Topics of events: lists of the API; `health` reports unavailable dependencies, as the probe does. */
export const topicNames = ['clusters', 'rules', 'groups', 'limits', 'queue', 'health'] as const;

export type TopicName = (typeof topicNames)[number];

/** Numbers of the present state of each topic, each greater than the number of any earlier state; null: not known now. */
export type TopicVersions = Readonly<Partial<Record<TopicName, () => number | Promise<number>>>>;

/** A version of something that is read from elsewhere as a text that changes with it. */
export function versionOfText(read: () => Promise<string>): () => Promise<number> {
  const versions = new ChangeCount();
  return async () => versions.of([await read()]);
}

/**
 * A version of a text that is read while others are looked at: a look gives the version of the text that was read last.
 * For what may take a second to read. @param read must not reject
 */
export function versionBeside(read: () => Promise<string>): () => number {
  const versions = new ChangeCount();
  let text = '';
  let isReading = false;
  return () => {
    if (!isReading) {
      isReading = true;
      void read().then((now) => {
        text = now;
        isReading = false;
      });
    }
    return versions.of([text]);
  };
}
