// The part of uPlot that the console uses.
export type Data = (number[] | (number | null)[])[];
export default class uPlot {
  constructor(options: object, data: Data, target: HTMLElement);
  setData(data: Data, resetScales?: boolean): void;
  setSize(size: { width: number; height: number }): void;
  destroy(): void;
}
