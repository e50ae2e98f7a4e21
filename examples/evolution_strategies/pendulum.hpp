// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "random_stream.hpp"

namespace es {

// Gym's Pendulum-v1: a rod hangs from a motor too weak to lift it in one go; swing it up and hold
// it. The angle is 0 upright and grows anticlockwise. Every episode lasts 200 steps.
class pendulum {
 public:
  static constexpr const char* name = "pendulum";
  static constexpr std::size_t observation_size = 3;
  static constexpr int step_limit = 200;
  static constexpr double passing_score = -200.0;

  static constexpr double gravity = 10.0;
  static constexpr double mass = 1.0;
  static constexpr double length = 1.0;
  static constexpr double step_seconds = 0.05;
  static constexpr double max_torque = 2.0;
  static constexpr double max_speed = 8.0;

  pendulum(double angle, double speed) : angle_(angle), speed_(speed) {}

  // The published start: any angle, a speed within [-1, 1).
  static pendulum start(random_stream& random) {
    const double angle = random.uniform(-std::numbers::pi, std::numbers::pi);
    return {angle, random.uniform(-1.0, 1.0)};
  }

  std::array<double, observation_size> observation() const {
    return {std::cos(angle_), std::sin(angle_), speed_};
  }

  // `signal` times the largest torque is asked for, within the motor's limits; returns the reward.
  double step(double signal) {
    const double torque = std::clamp(signal * max_torque, -max_torque, max_torque);
    const double tilt = within_half_turn(angle_);
    const double cost = tilt * tilt + 0.1 * speed_ * speed_ + 0.001 * torque * torque;
    const double acceleration =
        3.0 * gravity / (2.0 * length) * std::sin(angle_) + 3.0 / (mass * length * length) * torque;
    speed_ = std::clamp(speed_ + acceleration * step_seconds, -max_speed, max_speed);
    angle_ += speed_ * step_seconds;
    return -cost;
  }

  bool is_over() const { return false; }
  double angle() const { return angle_; }
  double speed() const { return speed_; }

  // The same direction as an angle within [-pi, pi).
  static double within_half_turn(double angle) {
    constexpr double turn = 2.0 * std::numbers::pi;
    const double shifted = angle + std::numbers::pi;
    return shifted - turn * std::floor(shifted / turn) - std::numbers::pi;
  }

 private:
  double angle_;
  double speed_;
};

}  // namespace es
