import { useParams } from 'react-router';
import { isGatewayId, isMissing, useWholeQuery } from '../../client/resources.ts';
import type { WholeQuery } from '../../client/types.ts';
import { CopyText } from '../../components/CopyText.tsx';
import { To } from '../../components/elements.tsx';
import { PageFrame, Panel } from '../../components/frame.tsx';
import { SqlText } from '../../components/SqlText.tsx';
import { EmptyState, RequestState } from '../../components/states.tsx';
import { Facts } from './Facts.tsx';
import { Outcome } from './Outcome.tsx';
import classes from './query.module.css';
import { Reasons } from './Reasons.tsx';
import { noText } from './reach.ts';
import { Timeline } from './Timeline.tsx';

/** All data of a query: outcome, times, routing, and text. */
export default function QueryPage() {
  const { queryId = '' } = useParams();
  const query = useWholeQuery(queryId);
  return (
    <PageFrame title={`Query ${queryId}`} actions={<CopyText text={queryId} what="query id" />}>
      {query.data === undefined && isMissing(query.error) ? (
        <NoQuery queryId={queryId} />
      ) : (
        <RequestState query={query} label="Loading the query">
          {(data) => <Whole key={data.queryId} query={data} />}
        </RequestState>
      )}
    </PageFrame>
  );
}

function NoQuery({ queryId }: { readonly queryId: string }) {
  return (
    <EmptyState title="No query of this id is in the history that you may see. It keeps queries for a time, and has new ones after some seconds.">
      <To address={`/history?queryId=${encodeURIComponent(queryId)}`}>To the history</To>
      {isGatewayId(queryId) && <To address="/queue">To the queries that wait for a cluster</To>}
    </EmptyState>
  );
}

function Whole({ query }: { readonly query: WholeQuery }) {
  return (
    <>
      <div className={classes.columns}>
        <Panel title="Outcome">
          <Outcome query={query} />
        </Panel>
        <Panel title="Timeline">
          <Timeline query={query} />
        </Panel>
      </div>
      <Panel title="About it">
        <Facts query={query} />
      </Panel>
      <Reasons query={query} />
      <Panel title="SQL" actions={<CopyText text={query.queryText} what="SQL" />}>
        {query.queryText === '' ? (
          noText(query)
        ) : (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1)
          <section className={classes.text} tabIndex={0} aria-label="Text of the query">
            <SqlText text={query.queryText} />
          </section>
        )}
      </Panel>
    </>
  );
}
