import { Type } from 'typebox';
import { GatewayError } from '../../model/errors.ts';
import { callerOf } from '../auth/guard.ts';
import { type RouteContext, routes } from '../routes.ts';
import { content } from '../schemas.ts';
import { EventStreams, type EventStreamsOptions } from './eventStreams.ts';
import { type TopicName, topicNames } from './topics.ts';

const Followed = Type.Object({
  topics: Type.Optional(
    Type.String({
      maxLength: 200,
      description: `Some of ${topicNames.join(', ')}, separated by commas; all when absent.`,
    }),
  ),
});

/** The event stream: which lists changed, so that pages need not ask (docs/rest-api.md#events). */
export function eventRoutes(api: RouteContext, options: EventStreamsOptions): void {
  const streams = new EventStreams(options);
  api.app.addHook('preClose', async () => streams.close());

  routes(api, 'events')('GET', '/api/events', {
    summary: 'Names of lists that changed, as Server-Sent Events',
    description:
      'An event `versions` with a JSON object of topics and their versions, at first of all, then of those that changed: what a version belongs to is read by the calls themselves. An event `beat` every two seconds says that the gateway is there. A stream ends after a minute; clients connect again.',
    query: Followed,
    responses: { 200: content('The events, until the stream ends.', Type.String(), 'text/event-stream') },
    errors: [429],
    // A caller who asks for the head alone would hold a stream.
    options: { exposeHeadRoute: false },
    handle: async ({ request, reply, query }) => {
      const stream = await streams.open(callerOf(request).name, wantedTopics(query.topics, options));
      // Proxies must pass on each event at once.
      return reply
        .headers({ 'Content-Type': 'text/event-stream; charset=utf-8', 'X-Accel-Buffering': 'no' })
        .send(stream);
    },
  });
}

/** @throws GatewayError EG_MALFORMED for a name that is no topic */
function wantedTopics(list: string | undefined, { topics }: EventStreamsOptions): readonly TopicName[] {
  const served = topicNames.filter((name) => topics[name] !== undefined);
  if (list === undefined) return served;
  const wanted = new Set(list.split(',').map((name) => name.trim()));
  for (const name of wanted) {
    if (topicNames.some((topic) => topic === name)) continue;
    const message = `topics has ${JSON.stringify(name)}; it may have ${topicNames.join(', ')}`;
    throw new GatewayError('EG_MALFORMED', message, { field: 'topics' });
  }
  return served.filter((name) => wanted.has(name));
}
