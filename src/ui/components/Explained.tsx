import { Button, Group } from '@mantine/core';
import { IconPlayerPlay } from '@tabler/icons-react';
import type { UseMutationResult } from '@tanstack/react-query';
import { type ReactNode, useEffect, useRef } from 'react';
import { messageOf } from '../client/apiError.ts';
import { Notice } from './elements.tsx';

interface ExplainedProps<Answer> {
  readonly question: string;
  readonly failure: string;
  readonly explain: Pick<UseMutationResult<Answer>, 'isPending' | 'isSuccess' | 'isError' | 'error' | 'data'>;
  readonly children: (answer: Answer) => ReactNode;
}

/**
 * The end of a form that asks for an explanation: its button, and below it the response, which is scrolled into view.
 */
export function Explained<Answer>({ question, failure, explain, children }: ExplainedProps<Answer>) {
  const answer = useRef<HTMLDivElement>(null);
  const { isPending, isSuccess, isError, error, data } = explain;
  // In a dialog it is below the visible part.
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
          <Notice tone="error" title={failure}>
            {messageOf(error)}
          </Notice>
        )}
        {error === null && data !== undefined && children(data)}
      </div>
    </>
  );
}
