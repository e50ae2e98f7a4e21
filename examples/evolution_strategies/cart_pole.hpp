// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "random_stream.hpp"

namespace es {

// Gym's CartPole-v1: push a cart left or right so that the pole on it stays up. Each step earns 1,
// the one that ends the episode too; it ends when the pole leans by more than 12 degrees, the cart
// is more than 2.4 from the middle, or after 500 steps.
class cart_pole {
 public:
  static constexpr const char* name = "cartpole";
  static constexpr std::size_t observation_size = 4;
  static constexpr int step_limit = 500;
  static constexpr double passing_score = 475.0;

  static constexpr double gravity = 9.8;
  static constexpr double cart_mass = 1.0;
  static constexpr double pole_mass = 0.1;
  static constexpr double total_mass = cart_mass + pole_mass;
  static constexpr double half_length = 0.5;
  static constexpr double push = 10.0;
  static constexpr double step_seconds = 0.02;
  static constexpr double max_position = 2.4;
  static constexpr double max_angle = 12.0 * std::numbers::pi / 180.0;

  struct state {
    double position, velocity, angle, angular_velocity;
  };

  explicit cart_pole(const state& s) : s_(s) {}

  // The published start: all four within [-0.05, 0.05).
  static cart_pole start(random_stream& random) {
    const auto small = [&random] { return random.uniform(-0.05, 0.05); };
    return cart_pole(state{small(), small(), small(), small()});
  }

  std::array<double, observation_size> observation() const {
    return {s_.position, s_.velocity, s_.angle, s_.angular_velocity};
  }

  // A positive `signal` pushes right, any other left; returns the step's reward.
  double step(double signal) {
    const double force = signal > 0.0 ? push : -push;
    const double sine = std::sin(s_.angle);
    const double cosine = std::cos(s_.angle);
    const double spin = s_.angular_velocity;
    const double shove = (force + pole_mass * half_length * spin * spin * sine) / total_mass;
    const double angular_acceleration =
        (gravity * sine - cosine * shove) /
        (half_length * (4.0 / 3.0 - pole_mass * cosine * cosine / total_mass));
    const double acceleration =
        shove - pole_mass * half_length * angular_acceleration * cosine / total_mass;
    // Explicit Euler, as published: positions move by the old velocities.
    s_.position += step_seconds * s_.velocity;
    s_.velocity += step_seconds * acceleration;
    s_.angle += step_seconds * s_.angular_velocity;
    s_.angular_velocity += step_seconds * angular_acceleration;
    return 1.0;
  }

  bool is_over() const {
    return std::abs(s_.position) > max_position || std::abs(s_.angle) > max_angle;
  }
  const state& now() const { return s_; }

 private:
  state s_;
};

}  // namespace es
