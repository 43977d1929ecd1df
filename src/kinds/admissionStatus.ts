/** Fields of a status that show how much of a limit is used, as the last count of all replicas found it. */
export const countProperties = {
  running: {
    type: 'integer',
    format: 'int64',
    minimum: 0,
    description: 'Queries that run and count against it, on all replicas.',
  },
  waiting: { type: 'integer', format: 'int64', minimum: 0, description: 'Submissions that wait for it.' },
  refused: {
    type: 'integer',
    format: 'int64',
    minimum: 0,
    description: 'Submissions that it refused, or would have refused where it only observes, since counting began.',
  },
};
