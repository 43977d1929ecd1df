import { Alert, Button, Group } from '@mantine/core';
import { IconAlertTriangle, IconPlayerPlay } from '@tabler/icons-react';
import type { UseMutationResult } from '@tanstack/react-query';
import { type ReactNode, useEffect, useRef } from 'react';
import { messageOf } from '../client/apiError.ts';

interface ExplainedProps<Answer> {
  /** What the button asks. */
  readonly question: string;
  /** Title of a failure. */
  readonly failure: string;
  readonly explain: Pick<UseMutationResult<Answer>, 'isPending' | 'isSuccess' | 'isError' | 'error' | 'data'>;
  readonly children: (answer: Answer) => ReactNode;
}

/** The end of a form that asks what the gateway would decide: its button, and below it the answer, which is brought into view. */
export function Explained<Answer>({ question, failure, explain, children }: ExplainedProps<Answer>) {
  const answer = useRef<HTMLDivElement>(null);
  const { isPending, isSuccess, isError, error, data } = explain;
  // In a dialog it is below what is seen.
  useEffect(() => {
    if (isSuccess || isError) answer.current?.scrollIntoView({ block: 'nearest' });
  }, [isSuccess, isError]);
  return (
    <>
      <Group>
        <Button
          type="submit"
          variant="default"
          loading={isPending}
          leftSection={<IconPlayerPlay size={16} aria-hidden />}
        >
          {question}
        </Button>
      </Group>
      <div aria-live="polite" ref={answer}>
        {error !== null && (
          <Alert role="alert" color="red" title={failure} icon={<IconAlertTriangle aria-hidden />}>
            {messageOf(error)}
          </Alert>
        )}
        {error === null && data !== undefined && children(data)}
      </div>
    </>
  );
}
