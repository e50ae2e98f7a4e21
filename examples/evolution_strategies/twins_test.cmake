# SPDX-License-Identifier: Apache-2.0
# The program and its serial twin draw the same learning curve, bit by bit, on any number of
# workers; bad options end with code 2 and one line.
function(run wanted)
  execute_process(COMMAND ${program} ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out
    ERROR_VARIABLE err)
  if(NOT code EQUAL wanted)
    message(FATAL_ERROR "${ARGN}: exit code ${code}, wanted ${wanted}\n${out}${err}")
  endif()
  set(err "${err}" PARENT_SCOPE)
endfunction()

# Under a sanitizer and a loaded machine a rollout may be slow; nothing may be cut here.
set(common --env cartpole --seed 7 --patience 600 --limit 600)
run(0 ${common} --serial --curve twins_serial.csv)
foreach(workers IN ITEMS 1 2 5)
  run(0 ${common} --manta-workers=${workers} --curve twins_remote.csv)
  file(READ twins_serial.csv serial)
  file(READ twins_remote.csv remote)
  if(NOT serial STREQUAL remote)
    message(FATAL_ERROR "The curves differ: see twins_serial.csv and twins_remote.csv")
  endif()
endforeach()

run(1 --env pendulum --limit 0)
foreach(bad IN ITEMS --sead "--seed;x" "--seed=-1" "--seed" "--env;moon" "--limit;nan" "--curve=")
  run(2 ${bad})
  if(NOT err MATCHES "^[^\n]+\n$")
    message(FATAL_ERROR "${bad}: wanted one line, found '${err}'")
  endif()
endforeach()
