// One pool of threads for the process. A program is a list of stages; the tiles of a stage are taken by whoever is free,
// and the next stage begins when they are done, whether or not every thread has come: a thread that the kernel has put
// aside delays nobody unless it holds a tile. Between programs the workers sleep.
#pragma once

namespace forebay {

struct Stage {
  void (*run)(const void* context, int argument, int tile);
  const void* context;
  int argument;
  int tiles;
};

void set_threads(int count);  // the caller of run_stages included; not while a program runs
int num_threads();
void run_stages(const Stage* stages, int count);  // returns when all are done; one caller at a time

}  // namespace forebay
