import { Button, Group } from '@mantine/core';

interface FormButtonsProps {
  readonly action: string;
  readonly busy: boolean;
  readonly onCancel: () => void;
}

export function FormButtons({ action, busy, onCancel }: FormButtonsProps) {
  return (
    <Group justify="flex-end">
      <Button variant="default" onClick={onCancel}>
        Cancel
      </Button>
      <Button type="submit" loading={busy}>
        {action}
      </Button>
    </Group>
  );
}
