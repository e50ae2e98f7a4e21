// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cereal/access.hpp>  // Debian: apt-get install libcereal-dev

// The functions that a class has for cereal, in all the forms that cereal knows: members (private
// ones through `friend class cereal::access`) and free functions (in the class's namespace or in
// cereal's), serialize, save and load, save_minimal and load_minimal, each with and without a
// version.
//
// Of several forms, one is right when cereal::specialize says so; else the class is ambiguous, as
// it is for cereal. A form with a version and the same without one count as one; the one with a
// version is called.

namespace manta::inline v0::codec {

enum class cereal_form : std::uint8_t {
  none,
  member_serialize,
  member_load_save,
  member_minimal,
  free_serialize,
  free_load_save,
  free_minimal,
  ambiguous,
};

namespace calls {

// Free functions are found by the types of their arguments alone. Names that hide nothing there.
template <class Ar, class T>
concept has_free_serialize = requires(Ar& ar, T& t) {
  serialize(ar, t);
};
template <class Ar, class T>
concept has_free_versioned_serialize = requires(Ar& ar, T& t) {
  serialize(ar, t, 0U);
};
template <class Ar, class T>
concept has_free_save = requires(Ar& ar, const T& t) {
  save(ar, t);
};
template <class Ar, class T>
concept has_free_versioned_save = requires(Ar& ar, const T& t) {
  save(ar, t, 0U);
};
template <class Ar, class T>
concept has_free_minimal = requires(const Ar& ar, const T& t) {
  save_minimal(ar, t);
};
template <class Ar, class T>
concept has_free_versioned_minimal = requires(const Ar& ar, const T& t) {
  save_minimal(ar, t, 0U);
};

template <class Ar, class T>
concept has_member_serialize = requires(Ar& ar, T& t) {
  cereal::access::member_serialize(ar, t);
};
template <class Ar, class T>
concept has_member_versioned_serialize = requires(Ar& ar, T& t) {
  cereal::access::member_serialize(ar, t, 0U);
};
template <class Ar, class T>
concept has_member_save = requires(Ar& ar, const T& t) {
  cereal::access::member_save(ar, t);
};
template <class Ar, class T>
concept has_member_versioned_save = requires(Ar& ar, const T& t) {
  cereal::access::member_save(ar, t, 0U);
};
template <class Ar, class T>
concept has_member_minimal = requires(const Ar& ar, const T& t) {
  cereal::access::member_save_minimal(ar, t);
};
template <class Ar, class T>
concept has_member_versioned_minimal = requires(const Ar& ar, const T& t) {
  cereal::access::member_save_minimal(ar, t, 0U);
};

template <class Ar, class T>
void write_free(Ar& ar, T& t, std::uint32_t version) {
  if constexpr (has_free_versioned_serialize<Ar, T>) {
    serialize(ar, t, version);
  } else if constexpr (has_free_serialize<Ar, T>) {
    serialize(ar, t);
  }
}
template <class Ar, class T>
void save_free(Ar& ar, const T& t, std::uint32_t version) {
  if constexpr (has_free_versioned_save<Ar, T>) {
    save(ar, t, version);
  } else {
    save(ar, t);
  }
}
template <class Ar, class T>
void load_free(Ar& ar, T& t, std::uint32_t version) {
  if constexpr (requires { load(ar, t, version); }) {
    load(ar, t, version);
  } else {
    load(ar, t);
  }
}
template <class Ar, class T>
auto save_free_minimal(const Ar& ar, const T& t, std::uint32_t version) {
  if constexpr (has_free_versioned_minimal<Ar, T>) {
    return save_minimal(ar, t, version);
  } else {
    return save_minimal(ar, t);
  }
}
template <class Ar, class T, class V>
void load_free_minimal(const Ar& ar, T& t, const V& value, std::uint32_t version) {
  if constexpr (requires { load_minimal(ar, t, value, version); }) {
    load_minimal(ar, t, value, version);
  } else {
    load_minimal(ar, t, value);
  }
}

}  // namespace calls

/// Which form T has for the writing archive Ar.
template <class Ar, class T>
constexpr cereal_form cereal_form_of() {
  using enum cereal_form;
  using cereal::specialization;
  constexpr auto asked = []<specialization S>() {
    return !std::is_base_of_v<std::false_type, cereal::specialize<Ar, T, S>>;
  };
  if (asked.template operator()<specialization::member_serialize>()) return member_serialize;
  if (asked.template operator()<specialization::member_load_save>()) return member_load_save;
  if (asked.template operator()<specialization::member_load_save_minimal>()) return member_minimal;
  if (asked.template operator()<specialization::non_member_serialize>()) return free_serialize;
  if (asked.template operator()<specialization::non_member_load_save>()) return free_load_save;
  if (asked.template operator()<specialization::non_member_load_save_minimal>()) {
    return free_minimal;
  }
  cereal_form found = none;
  const auto see = [&found](bool is_there, cereal_form form) {
    if (is_there) found = found == none ? form : ambiguous;
  };
  see(calls::has_member_serialize<Ar, T> || calls::has_member_versioned_serialize<Ar, T>,
      member_serialize);
  see(calls::has_member_save<Ar, T> || calls::has_member_versioned_save<Ar, T>, member_load_save);
  see(calls::has_member_minimal<Ar, T> || calls::has_member_versioned_minimal<Ar, T>,
      member_minimal);
  see(calls::has_free_serialize<Ar, T> || calls::has_free_versioned_serialize<Ar, T>,
      free_serialize);
  see(calls::has_free_save<Ar, T> || calls::has_free_versioned_save<Ar, T>, free_load_save);
  see(calls::has_free_minimal<Ar, T> || calls::has_free_versioned_minimal<Ar, T>, free_minimal);
  return found;
}

/// The version that CEREAL_CLASS_VERSION gives T; 0 without one.
template <class T>
std::uint32_t cereal_version() noexcept {
  return cereal::detail::Version<T>::version;
}

/// Writes by the class's functions. Serialize functions take a T& though they write: cereal's form.
template <cereal_form Form, class Ar, class T>
void save_by_cereal(Ar& ar, const T& value, std::uint32_t version) {
  using cereal::access;
  auto& open = const_cast<T&>(value);  // NOLINT(cppcoreguidelines-pro-type-const-cast): see above
  if constexpr (Form == cereal_form::member_serialize) {
    if constexpr (calls::has_member_versioned_serialize<Ar, T>) {
      access::member_serialize(ar, open, version);
    } else {
      access::member_serialize(ar, open);
    }
  } else if constexpr (Form == cereal_form::member_load_save) {
    if constexpr (calls::has_member_versioned_save<Ar, T>) {
      access::member_save(ar, value, version);
    } else {
      access::member_save(ar, value);
    }
  } else if constexpr (Form == cereal_form::member_minimal) {
    if constexpr (calls::has_member_versioned_minimal<Ar, T>) {
      ar(access::member_save_minimal(ar, value, version));
    } else {
      ar(access::member_save_minimal(ar, value));
    }
  } else if constexpr (Form == cereal_form::free_serialize) {
    calls::write_free(ar, open, version);
  } else if constexpr (Form == cereal_form::free_load_save) {
    calls::save_free(ar, value, version);
  } else {
    ar(calls::save_free_minimal(ar, value, version));
  }
}

/// What a class's save_minimal gives to the writing archive Out.
template <cereal_form Form, class Out, class T>
auto minimal_of(const Out& ar, const T& value) {
  using cereal::access;
  if constexpr (Form == cereal_form::free_minimal) {
    return calls::save_free_minimal(ar, value, 0U);
  } else if constexpr (calls::has_member_versioned_minimal<Out, T>) {
    return access::member_save_minimal(ar, value, 0U);
  } else {
    return access::member_save_minimal(ar, value);
  }
}

/// Reads by the class's functions; Out is the archive that the form was found for.
template <cereal_form Form, class Out, class In, class T>
void load_by_cereal(In& ar, T& value, std::uint32_t version) {
  using cereal::access;
  if constexpr (Form == cereal_form::member_serialize) {
    if constexpr (calls::has_member_versioned_serialize<In, T>) {
      access::member_serialize(ar, value, version);
    } else {
      access::member_serialize(ar, value);
    }
  } else if constexpr (Form == cereal_form::member_load_save) {
    if constexpr (requires { access::member_load(ar, value, version); }) {
      access::member_load(ar, value, version);
    } else {
      access::member_load(ar, value);
    }
  } else if constexpr (Form == cereal_form::free_serialize) {
    calls::write_free(ar, value, version);
  } else if constexpr (Form == cereal_form::free_load_save) {
    calls::load_free(ar, value, version);
  } else {
    using minimal = std::remove_cvref_t<decltype(minimal_of<Form>(std::declval<const Out&>(),
                                                                  std::declval<const T&>()))>;
    minimal found{};
    ar(found);
    if constexpr (Form == cereal_form::free_minimal) {
      calls::load_free_minimal(ar, value, found, version);
    } else if constexpr (requires { access::member_load_minimal(ar, value, found, version); }) {
      access::member_load_minimal(ar, value, found, version);
    } else {
      access::member_load_minimal(ar, value, found);
    }
  }
}

}  // namespace manta::inline v0::codec
